//! The sums of a batch: by day and ownership, and by charged scope.

use std::collections::BTreeMap;

use chrono::{DateTime, NaiveDate, Utc};
use spend_queue::{Entry, ScopeRef, SpendEvent, Usd};
use sqlx::PgConnection;

use super::events::{charged_at, count};
use crate::LedgerError;
use crate::money::to_numeric;

/// A quarter of an hour.
const QUARTER_SECONDS: i64 = 900;

/// One row of `usage_daily`, in the order of its primary key: the order in which every committer locks rows.
/// An empty text stands for none, which no id can be.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct DailyKey<'a> {
    organization_id: &'a str,
    day: NaiveDate,
    team_id: &'a str,
    project_id: &'a str,
    user_id: &'a str,
    key_id: &'a str,
    provider: &'a str,
    model: &'a str,
}

#[derive(Default)]
struct DailySum {
    events: u64,
    unpriced_events: u64,
    prompt_tokens: u64,
    completion_tokens: u64,
    cached_tokens: u64,
    cost: Usd,
}

/// Sums by UTC day, full ownership, provider and model.
pub(super) struct DailySums<'a>(BTreeMap<DailyKey<'a>, DailySum>);

impl<'a> DailySums<'a> {
    pub(super) fn of(entries: &[&'a Entry], untimed_at: DateTime<Utc>) -> Result<Self, LedgerError> {
        let mut sums = BTreeMap::<_, DailySum>::new();
        for Entry { event, .. } in entries {
            let key = DailyKey {
                organization_id: or_empty(&event.organization_id),
                day: charged_at(event, untimed_at).date_naive(),
                team_id: or_empty(&event.team_id),
                project_id: or_empty(&event.project_id),
                user_id: or_empty(&event.user_id),
                key_id: or_empty(&event.key_id),
                provider: &event.provider,
                model: &event.model,
            };
            sums.entry(key).or_default().add(event)?;
        }
        Ok(Self(sums))
    }

    pub(super) async fn add(&self, connection: &mut PgConnection) -> Result<(), LedgerError> {
        let text = |part: fn(&DailyKey<'a>) -> &'a str| self.0.keys().map(part).collect::<Vec<&str>>();
        let sum = |what, part: fn(&DailySum) -> u64| {
            self.0.values().map(|sum| count(what, part(sum))).collect::<Result<Vec<i64>, _>>()
        };
        let days: Vec<NaiveDate> = self.0.keys().map(|key| key.day).collect();
        let costs: Vec<String> = self
            .0
            .values()
            .map(|sum| to_numeric("the cost of a batch on one day", sum.cost))
            .collect::<Result<_, _>>()?;
        sqlx::query_file!(
            "queries/add_daily_usage.sql",
            &days,
            &text(|key| key.organization_id) as &[&str],
            &text(|key| key.team_id) as &[&str],
            &text(|key| key.project_id) as &[&str],
            &text(|key| key.user_id) as &[&str],
            &text(|key| key.key_id) as &[&str],
            &text(|key| key.provider) as &[&str],
            &text(|key| key.model) as &[&str],
            &sum("events", |sum| sum.events)?,
            &sum("unpriced_events", |sum| sum.unpriced_events)?,
            &sum("prompt_tokens", |sum| sum.prompt_tokens)?,
            &sum("completion_tokens", |sum| sum.completion_tokens)?,
            &sum("cached_tokens", |sum| sum.cached_tokens)?,
            &costs,
        )
        .execute(connection)
        .await
        .map_err(LedgerError::query("adding daily usage"))?;
        Ok(())
    }
}

impl DailySum {
    fn add(&mut self, event: &SpendEvent) -> Result<(), LedgerError> {
        let add = |what, sum: &mut u64, more: u64| {
            *sum = sum.checked_add(more).ok_or_else(|| too_large(what))?;
            Ok::<(), LedgerError>(())
        };
        self.events += 1;
        self.unpriced_events += u64::from(event.cost.is_none());
        add("prompt_tokens", &mut self.prompt_tokens, event.prompt_tokens)?;
        add("completion_tokens", &mut self.completion_tokens, event.completion_tokens)?;
        add("cached_tokens", &mut self.cached_tokens, event.cached_tokens)?;
        let cost = self.cost.checked_add(event.cost.unwrap_or_default());
        self.cost = cost.ok_or_else(|| too_large("the cost of a batch on one day"))?;
        Ok(())
    }
}

/// What each scope is charged: exactly the scopes that an event names, and only for events with a cost above zero.
/// Nothing is derived from ownership. The key is a scope and a quarter of an hour, which belongs to one budget period in every
/// time zone in force.
#[derive(Default)]
pub(super) struct Charges<'a>(BTreeMap<(&'a ScopeRef, DateTime<Utc>), Charge>);

#[derive(Default)]
struct Charge {
    cost: Usd,
    events: i64,
}

impl<'a> Charges<'a> {
    pub(super) fn of(entries: &[&'a Entry], untimed_at: DateTime<Utc>) -> Result<Self, LedgerError> {
        let mut charges = Self::default();
        for Entry { event, .. } in entries {
            let Some(cost) = event.paid() else { continue };
            let quarter = to_quarter(charged_at(event, untimed_at));
            for scope in &event.scopes {
                let charge = charges.0.entry((scope, quarter)).or_default();
                let sum = charge.cost.checked_add(cost);
                charge.cost = sum.ok_or_else(|| too_large("what a batch charges to a scope"))?;
                charge.events += 1;
            }
        }
        Ok(charges)
    }

    pub(super) async fn add(&self, connection: &mut PgConnection) -> Result<(), LedgerError> {
        if self.0.is_empty() {
            return Ok(());
        }
        let (mut kinds, mut ids): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
        let mut positions = Vec::with_capacity(self.0.len());
        let mut last = None;
        for (scope, _) in self.0.keys() {
            // In the order of the map, so equal scopes are neighbours.
            if last.replace(*scope) != Some(*scope) {
                kinds.push(scope.kind());
                ids.push(scope.id());
            }
            positions.push(count("the number of charged scopes", ids.len() as u64)?);
        }
        let quarters: Vec<DateTime<Utc>> = self.0.keys().map(|(_, quarter)| *quarter).collect();
        let costs: Vec<String> = self
            .0
            .values()
            .map(|charge| to_numeric("what a batch charges to a scope", charge.cost))
            .collect::<Result<_, _>>()?;
        let events: Vec<i64> = self.0.values().map(|charge| charge.events).collect();
        sqlx::query_file!(
            "queries/add_scope_spend.sql",
            &kinds as &[&str],
            &ids as &[&str],
            &positions,
            &quarters,
            &costs,
            &events,
        )
        .execute(connection)
        .await
        .map_err(LedgerError::query("adding scope spend"))?;
        Ok(())
    }
}

/// The first instant of the quarter of an hour that an instant belongs to.
fn to_quarter(at: DateTime<Utc>) -> DateTime<Utc> {
    let seconds = at.timestamp();
    DateTime::from_timestamp(seconds - seconds.rem_euclid(QUARTER_SECONDS), 0).unwrap_or(at)
}

fn too_large(what: &'static str) -> LedgerError {
    LedgerError::OutOfRange {
        what,
        value: "a batch's sum beyond its type".to_owned(),
        bound: "what its column holds".to_owned(),
    }
}

fn or_empty(id: &Option<String>) -> &str {
    id.as_deref().unwrap_or_default()
}
