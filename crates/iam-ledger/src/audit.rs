//! The ledger's own books, compared with each other.

mod archive;
mod epochs;
mod letters;

use chrono::NaiveDate;
use spend_queue::{Epoch, Usd};

use crate::money::from_numeric;
use crate::{Ledger, LedgerError};
pub use archive::ArchivedMonth;
pub use epochs::{FlushEnd, KnownEpoch};
pub use letters::OpenLetters;

/// What does not agree, and what was not looked at. Each list has at most as many rows as were asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LedgerAudit {
    /// Settled requests without an event, beyond those whose events were archived.
    pub requests_without_event: u64,
    /// Events that are recorded as archived, and for which no settled request without a stored event is left: requests are
    /// gone, or archived events are back.
    pub archived_without_request: u64,
    /// Events without a settled request.
    pub events_without_request: u64,
    /// Requests with several events.
    pub requests_with_several_events: u64,
    /// Days whose roll-up is not the sum of their events.
    pub days: Vec<DayDifference>,
    /// Scopes whose settled spend is not what the events charge to them.
    pub scopes: Vec<ScopeDifference>,
    /// Where the epoch's record of flushed batches does not continue.
    pub breaks: Vec<FlushBreak>,
    /// Every archived month, also those that agree: their events were not read.
    pub archived: Vec<ArchivedMonth>,
}

/// A UTC day whose roll-up is not the sum of its events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DayDifference {
    /// The day.
    pub day: NaiveDate,
    /// Events that are stored, and events in the roll-up.
    pub events: (String, String),
    /// What they cost, and what the roll-up says.
    pub cost: (Usd, Usd),
}

/// A scope whose settled spend is not what the events charge to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScopeDifference {
    /// The scope, as events write it.
    pub scope: String,
    /// What the events charge to it, those of archived months included.
    pub charged: Usd,
    /// What is settled for it.
    pub settled: Usd,
}

/// Numbers of a shard with which the record of flushed batches does not continue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlushBreak {
    /// The shard's number.
    pub shard: i32,
    /// The first number.
    pub first_seq: i64,
    /// The last number.
    pub last_seq: i64,
    /// Whether two histories have the number, rather than none.
    pub fork: bool,
}

impl Ledger {
    /// Compares the ledger's books with each other, and follows the record of flushed batches of one epoch. Reads all events:
    /// for an operator, not for a loop. The readings see one moment, so a flusher may go on meanwhile.
    ///
    /// # Errors
    ///
    /// When a reading fails; a statement that takes longer than the session allows is one of the reasons.
    pub async fn audit(&self, epoch: &Epoch, most: u32) -> Result<LedgerAudit, LedgerError> {
        let most = i64::from(most);
        let mut lease = self.lease().await?;
        let failed = |step| LedgerError::query(step);
        let mut reading = sqlx::Connection::begin_with(
            lease.connection(),
            "begin isolation level repeatable read read only",
        )
        .await
        .map_err(failed("beginning a reading"))?;
        let requests = sqlx::query_file!("queries/audit_requests.sql")
            .fetch_one(&mut *reading)
            .await
            .map_err(failed("comparing requests and events"))?;
        let days = sqlx::query_file!("queries/audit_days.sql", most)
            .fetch_all(&mut *reading)
            .await
            .map_err(failed("comparing days"))?;
        let scopes = sqlx::query_file!("queries/audit_scopes.sql", most)
            .fetch_all(&mut *reading)
            .await
            .map_err(failed("comparing scopes"))?;
        let breaks = sqlx::query_file!(
            "queries/audit_flush_log.sql",
            most,
            epoch.prefix(),
            i32::from(epoch.shards().get())
        )
        .fetch_all(&mut *reading)
        .await
        .map_err(failed("following the flush log"))?;
        let archived = archive::read(&mut reading).await?;
        reading.commit().await.map_err(failed("ending a reading"))?;
        lease.keep();
        let count = |count: i64| u64::try_from(count).unwrap_or_default();
        Ok(LedgerAudit {
            requests_without_event: count(requests.without_event - requests.archived),
            archived_without_request: count(requests.archived - requests.without_event),
            events_without_request: count(requests.without_request),
            requests_with_several_events: count(requests.twice),
            days: days
                .into_iter()
                .map(|row| {
                    let cost = (
                        from_numeric("cost_usd", &row.cost)?,
                        from_numeric("cost_usd", &row.rolled_up_cost)?,
                    );
                    Ok(DayDifference { day: row.day, events: (row.events, row.rolled_up), cost })
                })
                .collect::<Result<_, LedgerError>>()?,
            scopes: scopes
                .into_iter()
                .map(|row| {
                    let charged = from_numeric("cost_usd", &row.charged)?;
                    Ok(ScopeDifference {
                        scope: row.scope,
                        charged,
                        settled: from_numeric("spend_usd", &row.settled)?,
                    })
                })
                .collect::<Result<_, LedgerError>>()?,
            breaks: breaks
                .into_iter()
                .map(|row| FlushBreak {
                    shard: row.shard,
                    first_seq: row.first_seq,
                    last_seq: row.last_seq,
                    fork: row.kind == "fork",
                })
                .collect(),
            archived,
        })
    }

    /// Whether nothing was ever settled or refused in this ledger.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub async fn is_empty(&self) -> Result<bool, LedgerError> {
        sqlx::query_file!("queries/ledger_is_empty.sql")
            .fetch_one(&self.pool)
            .await
            .map(|row| row.empty)
            .map_err(|error| self.failed("asking whether the ledger is empty", error))
    }
}
