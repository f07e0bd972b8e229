//! Proving that the ledger holds exactly what a run did.
//!
//! Every sum is compared to the picodollar, in each way that the ledger keeps it: by event, by day, by scope. What was
//! expected comes from the run's own journal and from nothing that Redis or PostgreSQL said.

use std::collections::BTreeMap;
use std::fmt;

use chrono::NaiveDate;
use iam_ledger::Ledger;
use live_redis::LiveRedis;
use spend_queue::{ScopeRef, Usd};

use crate::drain::{StoreError, queue_length, ranges};
use crate::journal::{Charged, DayModel, Fingerprint, Fingerprinted, Journal, Spend, SumOverflow};
use crate::run::RunId;

/// Events that one look into the ledger fetches.
const PAGE: u32 = 2_000;

/// Something that is not as the journal says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// What was compared.
    pub what: String,
    /// What the journal says.
    pub expected: String,
    /// What was found.
    pub found: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: expected {}, found {}", self.what, self.expected, self.found)
    }
}

/// What the stores hold of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reconciliation {
    /// Settled events of the run.
    pub committed: u64,
    /// What they cost.
    pub ledger: Usd,
    /// What the run's organizations still have pending in Redis.
    pub hot_left: Usd,
    /// Entries in the queue.
    pub queue_left: u64,
    /// Everything that differs; empty when the books are proved.
    pub mismatches: Vec<Mismatch>,
}

/// Why the comparison did not come to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReconcileError {
    /// A store could not be asked.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What the ledger holds does not add up in the type that holds it.
    #[error("ledger: {0}")]
    Sum(#[from] SumOverflow),
}

impl From<iam_ledger::LedgerError> for ReconcileError {
    fn from(error: iam_ledger::LedgerError) -> Self {
        Self::Store(error.into())
    }
}

impl From<live_redis::LiveRedisError> for ReconcileError {
    fn from(error: live_redis::LiveRedisError) -> Self {
        Self::Store(error.into())
    }
}

/// Compares the stores with the journal of a run. `scopes` are all scopes of the run, charged or not.
///
/// # Errors
///
/// [`ReconcileError`]; what differs is no error.
pub async fn reconcile(
    redis: &LiveRedis,
    ledger: &Ledger,
    run_id: &RunId,
    journal: &Journal,
    scopes: &[ScopeRef],
) -> Result<Reconciliation, ReconcileError> {
    let mut found = Reconciliation::default();
    compare_events(ledger, run_id, journal, &mut found).await?;
    compare_days(ledger, journal, &mut found).await?;
    compare_scopes(ledger, journal, scopes, &mut found).await?;
    compare_hot(redis, scopes, &mut found).await;
    found.queue_left = queue_length(redis).await?;
    let queue_left = found.queue_left;
    found.expect("queue length", &0, &queue_left);
    Ok(found)
}

impl Reconciliation {
    fn expect<T: PartialEq + fmt::Display>(&mut self, what: impl Into<String>, expected: &T, found: &T) {
        if expected != found {
            let (expected, found) = (expected.to_string(), found.to_string());
            self.mismatches.push(Mismatch { what: what.into(), expected, found });
        }
    }

    fn expect_spend(&mut self, what: &str, expected: &Spend, found: &Spend) {
        self.expect(format!("{what}, events"), &expected.events, &found.events);
        self.expect(format!("{what}, unpriced events"), &expected.unpriced, &found.unpriced);
        self.expect(format!("{what}, prompt tokens"), &expected.prompt_tokens, &found.prompt_tokens);
        self.expect(
            format!("{what}, completion tokens"),
            &expected.completion_tokens,
            &found.completion_tokens,
        );
        self.expect(format!("{what}, USD"), &expected.cost, &found.cost);
    }
}

type OrganizationDays = BTreeMap<(String, NaiveDate), Spend>;

/// The settled events one by one: their digest, and their sums by organization and day.
async fn compare_events(
    ledger: &Ledger,
    run_id: &RunId,
    journal: &Journal,
    found: &mut Reconciliation,
) -> Result<(), ReconcileError> {
    let prefix = format!("{run_id}-");
    let (mut fingerprint, mut days) = (Fingerprint::default(), OrganizationDays::new());
    let mut scan = ledger.settled_events(PAGE);
    'pages: loop {
        let page = scan.next_page().await?;
        if page.is_empty() {
            break;
        }
        for event in page {
            if !event.request_id.starts_with(&prefix) {
                // Ids come in order, so behind the run's own there are none of its.
                if event.request_id > prefix {
                    break 'pages;
                }
                continue;
            }
            fingerprint.add(Fingerprinted {
                request_id: &event.request_id,
                cost: event.cost,
                prompt_tokens: event.prompt_tokens,
                completion_tokens: event.completion_tokens,
                scopes: &event.scopes,
            });
            let organization = event.scopes.iter().find(|scope| scope.kind() == "organization");
            let organization = organization.map_or("", ScopeRef::id).to_owned();
            days.entry((organization, event.started_at.date_naive())).or_default().add(Spend {
                events: 1,
                unpriced: u64::from(event.cost.is_none()),
                prompt_tokens: event.prompt_tokens,
                completion_tokens: event.completion_tokens,
                cost: event.cost.unwrap_or_default(),
            })?;
        }
    }
    let mut expected = OrganizationDays::new();
    for (DayModel { day, organization, .. }, spend) in &journal.days {
        expected.entry((organization.clone(), *day)).or_default().add(*spend)?;
    }
    let mut total = Spend::default();
    days.values().try_for_each(|spend| total.add(*spend))?;
    (found.committed, found.ledger) = (total.events, total.cost);
    found.expect_spend("all events", &journal.total()?, &total);
    each(&expected, &days, |(organization, day), expected, spend| {
        found.expect_spend(&format!("events of {organization} on {day}"), expected, spend);
    });
    found.expect("fingerprint of all events", &journal.fingerprint, &fingerprint);
    Ok(())
}

/// The daily sums, by organization, day and model.
async fn compare_days(
    ledger: &Ledger,
    journal: &Journal,
    found: &mut Reconciliation,
) -> Result<(), ReconcileError> {
    let mut days: BTreeMap<DayModel, Spend> = BTreeMap::new();
    for range in ranges(journal) {
        for usage in ledger.daily_usage(&range).await? {
            let key = DayModel { day: usage.day, organization: usage.organization_id, model: usage.model };
            days.entry(key).or_default().add(Spend {
                events: usage.sums.events,
                unpriced: usage.sums.unpriced_events,
                prompt_tokens: usage.sums.prompt_tokens,
                completion_tokens: usage.sums.completion_tokens,
                cost: usage.sums.cost,
            })?;
        }
    }
    each(&journal.days, &days, |DayModel { day, organization, model }, expected, spend| {
        found.expect_spend(&format!("daily usage of {organization} on {day}, {model}"), expected, spend);
    });
    Ok(())
}

/// What each scope was charged, over all periods.
async fn compare_scopes(
    ledger: &Ledger,
    journal: &Journal,
    scopes: &[ScopeRef],
    found: &mut Reconciliation,
) -> Result<(), ReconcileError> {
    for scope in scopes {
        let expected = journal.scopes.get(scope).copied().unwrap_or_default();
        let mut charged = Charged::default();
        for period in ledger.spend_of(scope).await? {
            charged.add(Charged { paid_events: period.paid_events, cost: period.spend })?;
        }
        found.expect(format!("settled spend of {scope}, USD"), &expected.cost, &charged.cost);
        found.expect(
            format!("settled spend of {scope}, paid events"),
            &expected.paid_events,
            &charged.paid_events,
        );
    }
    Ok(())
}

/// What Redis still holds as pending.
async fn compare_hot(redis: &LiveRedis, scopes: &[ScopeRef], found: &mut Reconciliation) {
    let degradations = redis.degradations();
    for scope in scopes {
        let hot = redis.hot_spend(scope).await;
        found.expect(format!("pending spend of {scope}, USD"), &Usd::ZERO, &hot);
        if scope.kind() == "organization" {
            found.hot_left = found.hot_left.checked_add(hot).unwrap_or(hot);
        }
    }
    // The read is permissive: a zero that stands for "unknown" proves nothing.
    found.expect("pending spend that could not be read, scopes", &0, &(redis.degradations() - degradations));
}

/// Every key of either map, with the value of each or nothing spent.
fn each<K: Ord>(
    expected: &BTreeMap<K, Spend>,
    found: &BTreeMap<K, Spend>,
    mut compare: impl FnMut(&K, &Spend, &Spend),
) {
    let nothing = Spend::default();
    for (key, spend) in expected {
        compare(key, spend, found.get(key).unwrap_or(&nothing));
    }
    for (key, spend) in found.iter().filter(|(key, _)| !expected.contains_key(key)) {
        compare(key, &nothing, spend);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spend(events: u64, picos: i128) -> Spend {
        Spend { events, cost: Usd::from_picos(picos), ..Spend::default() }
    }

    #[test]
    fn equal_sums_leave_no_line_and_a_picodollar_does() {
        let mut found = Reconciliation::default();
        found.expect_spend("x", &spend(1, 5), &spend(1, 5));
        assert_eq!(found.mismatches, []);
        found.expect_spend("x", &spend(1, 5), &spend(1, 6));
        let lines: Vec<String> = found.mismatches.iter().map(ToString::to_string).collect();
        assert_eq!(lines, ["x, USD: expected 0.000000000005, found 0.000000000006"]);
    }

    #[test]
    fn what_only_one_side_has_is_compared_too() {
        let expected = BTreeMap::from([("a", spend(1, 1)), ("b", spend(2, 2))]);
        let found = BTreeMap::from([("b", spend(2, 2)), ("c", spend(3, 3))]);
        let mut seen = Vec::new();
        each(&expected, &found, |key, expected, found| seen.push((*key, expected.events, found.events)));
        assert_eq!(seen, [("a", 1, 0), ("b", 2, 2), ("c", 0, 3)]);
    }
}
