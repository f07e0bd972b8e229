//! Which key sends which request of a trace, and the bill that it leaves.

use std::collections::BTreeMap;

use chrono::{DateTime, DurationRound, TimeDelta, Utc};
use iam_ledger::ScopeKind;
use serde_json::Value;
use spend_queue::{ScopeRef, ScopeRefError, SpendEvent};
use xxhash_rust::xxh3::xxh3_128_with_seed;

use crate::prices::Model;
use crate::random::Random;
use crate::tenants::{Caller, Tenants};
use crate::trace::TraceRequest;

/// Of a thousand events, so many are sent twice: a gateway retries when a reply is lost.
pub const DUPLICATE_PERMILLE: u64 = 20;
/// Of a thousand requests, so many go to the key's second model, or to any.
const SECOND_MODEL_PERMILLE: u64 = 250;
const ANY_MODEL_PERMILLE: u64 = 50;
/// Of a thousand requests, so many find part of their prompt in the model's cache.
const CACHED_PERMILLE: u64 = 300;

/// When an event is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicate {
    /// As soon as it was accepted.
    AtOnce,
    /// Together with the first, so that either may win.
    Concurrent,
    /// When its organization has sent so many more requests.
    Later(u64),
}

/// One request of the simulation.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its place in the trace, from 0.
    pub index: u64,
    /// When it arrived and how many tokens it takes.
    pub trace: TraceRequest,
    /// The key that sends it.
    pub caller: Caller,
    /// Place of the model in the list of models.
    pub model: usize,
    /// Prompt tokens that the model's cache held, at most all of them.
    pub cached_tokens: u64,
    /// How long the call takes, in milliseconds.
    pub duration_ms: u64,
    /// How long until its first token, in milliseconds; at most the duration.
    pub first_token_ms: u64,
    /// Whether its event is sent twice.
    pub duplicate: Option<Duplicate>,
}

/// Turns a trace into requests of tenants, the same for the same seed.
#[derive(Debug)]
pub struct Assignment<'t> {
    tenants: &'t Tenants,
    models: usize,
    seed: u64,
    random: Random,
    next: u64,
}

impl<'t> Assignment<'t> {
    /// For these tenants and so many models.
    #[must_use]
    pub fn new(tenants: &'t Tenants, models: usize, seed: u64) -> Self {
        Self { tenants, models, seed, random: Random::new(seed, "requests"), next: 0 }
    }

    /// The next request of the trace.
    pub fn assign(&mut self, trace: TraceRequest) -> Request {
        let random = &mut self.random;
        let caller = self.tenants.caller(random);
        let (first, second) = favourites(self.seed, caller, self.models);
        let model = match random.below(1000) {
            draw if draw < ANY_MODEL_PERMILLE => random.index(self.models),
            draw if draw < ANY_MODEL_PERMILLE + SECOND_MODEL_PERMILLE => second,
            _ => first,
        };
        let cached_tokens = match random.permille(CACHED_PERMILLE) {
            true => random.between(0, trace.context_tokens),
            false => 0,
        };
        let first_token_ms = random.between(150, 900) + trace.context_tokens / 20;
        let duration_ms = first_token_ms + trace.generated_tokens * random.between(8, 30);
        let duplicate = random.permille(DUPLICATE_PERMILLE).then(|| match random.below(3) {
            0 => Duplicate::AtOnce,
            1 => Duplicate::Concurrent,
            _ => Duplicate::Later(random.between(100, 500)),
        });
        let index = self.next;
        self.next += 1;
        Request { index, trace, caller, model, cached_tokens, duration_ms, first_token_ms, duplicate }
    }
}

/// The two models that a key uses most; they may be the same.
fn favourites(seed: u64, caller: Caller, models: usize) -> (usize, usize) {
    let mut random = Random::new(seed, &format!("models of {}/{}", caller.organization, caller.key));
    (random.index(models), random.index(models))
}

impl Request {
    /// What admission is asked for, in tokens. A gateway estimates; the simulation knows.
    #[must_use]
    pub fn estimate(&self) -> i64 {
        let tokens = self.trace.context_tokens.saturating_add(self.trace.generated_tokens);
        i64::try_from(tokens).unwrap_or(i64::MAX)
    }

    /// The request's id: the run's id and a UUID (version 8, RFC 9562) that seed and place decide.
    #[must_use]
    pub fn id(&self, run_id: &str, seed: u64) -> String {
        let hash = xxh3_128_with_seed(format!("{run_id}/{}", self.index).as_bytes(), seed);
        let uuid = hash & !(0xf << 76) & !(0x3 << 62) | (0x8 << 76) | (0x2 << 62);
        let hex = format!("{uuid:032x}");
        format!("{run_id}-{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }

    /// The finished call: it charges the key and everything above it.
    ///
    /// # Errors
    ///
    /// When a tenant's id is no legal scope.
    pub fn event(
        &self,
        run_id: &str,
        seed: u64,
        tenants: &Tenants,
        models: &[Model],
    ) -> Result<SpendEvent, ScopeRefError> {
        let organization = &tenants.organizations[self.caller.organization];
        let model = &models[self.model];
        let scopes: Result<Vec<ScopeRef>, ScopeRefError> = organization
            .path(self.caller.key)
            .map(|tenant| ScopeRef::new(tenant.kind.as_str(), tenant.id.as_str()))
            .collect();
        let id_of =
            |kind| organization.path(self.caller.key).find(|it| it.kind == kind).map(|it| it.id.clone());
        let started_at = self.started_at();
        let millis =
            |count: u64| TimeDelta::milliseconds(i64::try_from(count).unwrap_or(i64::MAX / 1_000_000));
        Ok(SpendEvent {
            key_id: id_of(ScopeKind::Key),
            user_id: id_of(ScopeKind::User),
            team_id: id_of(ScopeKind::Team),
            project_id: id_of(ScopeKind::Project),
            organization_id: id_of(ScopeKind::Organization),
            provider: model.provider.to_owned(),
            call_type: "chat".to_owned(),
            status: "ok".to_owned(),
            prompt_tokens: self.trace.context_tokens,
            completion_tokens: self.trace.generated_tokens,
            cached_tokens: self.cached_tokens,
            cost: model.cost(self.trace.context_tokens, self.cached_tokens, self.trace.generated_tokens),
            started_at: Some(started_at),
            ended_at: started_at.checked_add_signed(millis(self.duration_ms)),
            time_to_first_token_ms: Some(self.first_token_ms),
            metadata: BTreeMap::from([("trace_row".to_owned(), Value::from(self.index))]),
            ..SpendEvent::new(self.id(run_id, seed), model.name, scopes?)
        })
    }

    /// When the call started, to the microsecond that an event keeps.
    #[must_use]
    pub fn started_at(&self) -> DateTime<Utc> {
        // Refused only for times outside the years that a trace may have.
        self.trace.at.duration_trunc(TimeDelta::microseconds(1)).unwrap_or(self.trace.at)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::generator::Generator;
    use crate::prices;

    fn requests(seed: u64, tenants: &Tenants) -> Vec<Request> {
        let mut assignment = Assignment::new(tenants, prices::models().unwrap().len(), seed);
        Generator::new(seed).take(5_000).map(|request| assignment.assign(request)).collect()
    }

    #[test]
    fn a_seed_assigns_the_same_requests_and_another_seed_others() {
        let tenants = Tenants::new(1, "run");
        let text = |seed| format!("{:?}", requests(seed, &tenants));
        assert_eq!(text(1), text(1));
        assert_ne!(text(1), text(2));
    }

    #[test]
    fn about_two_in_a_hundred_events_are_sent_twice_in_each_of_three_ways() {
        let requests = requests(1, &Tenants::new(1, "run"));
        let count = |wanted: fn(&Duplicate) -> bool| {
            requests.iter().filter(|it| it.duplicate.as_ref().is_some_and(wanted)).count()
        };
        let each = [
            count(|it| matches!(it, Duplicate::AtOnce)),
            count(|it| matches!(it, Duplicate::Concurrent)),
            count(|it| matches!(it, Duplicate::Later(_))),
        ];
        assert!((70..=130).contains(&each.iter().sum::<usize>()), "{each:?}");
        assert!(each.iter().all(|count| *count > 10), "{each:?}");
    }

    #[test]
    fn every_request_has_an_id_of_its_own_that_looks_like_a_uuid_of_the_run() {
        let requests = requests(1, &Tenants::new(1, "run"));
        let ids: BTreeSet<String> = requests.iter().map(|request| request.id("run", 1)).collect();
        assert_eq!(ids.len(), requests.len());
        let id = requests[0].id("run", 1);
        assert_eq!(id, requests[0].id("run", 1));
        assert_ne!(id, requests[0].id("other", 1));
        let parts: Vec<&str> = id.split('-').collect();
        assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), [3, 8, 4, 4, 4, 12], "{id}");
        assert!(parts[3].starts_with('8') && parts[4].starts_with(['8', '9', 'a', 'b']), "{id}");
    }

    #[test]
    fn an_event_charges_its_key_and_everything_above_and_passes_validation() {
        let (tenants, models) = (Tenants::new(1, "run"), prices::models().unwrap());
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let (mut unpriced, mut free, mut paid, mut services) = (0, 0, 0, 0);
        for request in requests(1, &tenants) {
            let event = request.event("run", 1, &tenants, &models).unwrap();
            event.encode(now).unwrap();
            let kinds: Vec<&str> = event.scopes.iter().map(ScopeRef::kind).collect();
            let owner = if event.project_id.is_some() { "project" } else { "user" };
            assert_eq!(kinds, ["key", owner, "team", "organization"]);
            assert_eq!(event.user_id.is_none(), event.project_id.is_some());
            assert!(event.ended_at > event.started_at && event.cached_tokens <= event.prompt_tokens);
            services += u32::from(event.project_id.is_some());
            match event.cost {
                None => unpriced += 1,
                Some(cost) if cost.is_zero() => free += 1,
                Some(_) => paid += 1,
            }
        }
        assert!(
            unpriced > 0 && free > 0 && paid > 1000 && services > 0,
            "{unpriced} {free} {paid} {services}"
        );
    }
}
