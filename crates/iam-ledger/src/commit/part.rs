//! Settling some entries as one set: a batch, or a part of one.

use chrono::{DateTime, Utc};
use spend_queue::{Entry, Usd};
use sqlx::PgConnection;

use super::Committed;
use super::claim::Claims;
use super::events::{insert_events, to_micros};
use super::rollup::{Charges, DailySums};
use crate::LedgerError;

/// The instants of a commit, to the microsecond.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// The committer's clock.
    pub(crate) settled_at: DateTime<Utc>,
    /// As of when an event without any time counts.
    pub(crate) untimed_at: DateTime<Utc>,
}

impl Times {
    /// An ordinary commit: now is when an event without a time counts.
    pub(crate) fn at(now: DateTime<Utc>) -> Self {
        let now = to_micros(now);
        Self { settled_at: now, untimed_at: now }
    }

    /// A later attempt at what was first tried at another time: an event without a time belongs to the period in which
    /// it would have been settled.
    pub(crate) fn again(now: DateTime<Utc>, first_tried: DateTime<Utc>) -> Self {
        Self { settled_at: to_micros(now), untimed_at: to_micros(first_tried) }
    }
}

/// What became of some entries.
#[derive(Debug, Default)]
pub(crate) struct Settled<'a> {
    pub(crate) new: u64,
    pub(crate) duplicates: u64,
    /// What the new ones cost.
    pub(crate) cost: Usd,
    pub(crate) conflicts: Vec<&'a Entry>,
    pub(crate) refused: Vec<(&'a Entry, LedgerError)>,
}

impl<'a> Settled<'a> {
    /// Takes in what became of another part.
    pub(super) fn merge(&mut self, other: Self) -> Result<(), LedgerError> {
        self.new += other.new;
        self.duplicates += other.duplicates;
        self.cost = sum([self.cost, other.cost])?;
        self.conflicts.extend(other.conflicts);
        self.refused.extend(other.refused);
        Ok(())
    }

    /// Adds entries that cannot be settled, whatever the server says.
    pub(super) fn refuse(&mut self, entries: &[&'a Entry]) {
        let refused = entries.iter().filter_map(|entry| {
            entry.problem().map(|problem| (*entry, LedgerError::Unsettleable(problem.clone())))
        });
        self.refused.extend(refused);
    }

    pub(crate) fn committed(&self) -> Committed {
        Committed {
            new: self.new,
            duplicates: self.duplicates,
            conflicts: self.conflicts.iter().map(|entry| entry.event.request_id.clone()).collect(),
            refused: self.refused.len() as u64,
            cost: self.cost,
        }
    }
}

/// Settles these entries in the open transaction: all of them, or an error that leaves it to be rolled back, at least to
/// the last savepoint.
pub(crate) async fn settle<'a>(
    connection: &mut PgConnection,
    entries: &[&'a Entry],
    times: Times,
) -> Result<Settled<'a>, LedgerError> {
    let verdict = Claims::of(entries).settle(connection, times.settled_at).await?;
    let fresh = verdict.fresh;
    if !fresh.is_empty() {
        // All that follows from a request being settled, in the order in which every committer takes its locks.
        insert_events(connection, &fresh, times).await?;
        DailySums::of(&fresh, times.untimed_at)?.add(connection).await?;
        Charges::of(&fresh, times.untimed_at)?.add(connection).await?;
        crate::hold::settle(connection, &fresh, times.settled_at).await?;
    }
    let cost = sum(fresh.iter().filter_map(|entry| entry.event.cost))?;
    Ok(Settled {
        new: fresh.len() as u64,
        duplicates: verdict.duplicates,
        cost,
        conflicts: verdict.conflicts,
        refused: Vec::new(),
    })
}

fn sum(amounts: impl IntoIterator<Item = Usd>) -> Result<Usd, LedgerError> {
    Usd::checked_sum(amounts).ok_or_else(|| LedgerError::OutOfRange {
        what: "the cost of a batch",
        value: "more than an i128 of picodollars".to_owned(),
        bound: crate::MAX_BUDGET.to_string(),
    })
}
