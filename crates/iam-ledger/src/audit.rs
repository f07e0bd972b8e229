//! The ledger's own books, compared with each other.

use chrono::NaiveDate;
use spend_queue::{Chain, Shard, Usd};

use crate::money::from_numeric;
use crate::{Ledger, LedgerError};

/// What does not agree; empty on a ledger that works. Each list has at most as many rows as were asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LedgerAudit {
    /// Settled requests without an event.
    pub requests_without_event: u64,
    /// Events without a settled request.
    pub events_without_request: u64,
    /// Requests with several events.
    pub requests_with_several_events: u64,
    /// Days whose roll-up is not the sum of their events.
    pub days: Vec<DayDifference>,
    /// Scopes whose settled spend is not what the events charge to them.
    pub scopes: Vec<ScopeDifference>,
    /// Where the record of flushed batches does not continue.
    pub breaks: Vec<FlushBreak>,
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
    /// What the events charge to it.
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
    /// Compares the ledger's books with each other. Reads all events: for an operator, not for a loop. The four readings
    /// see one moment, so a flusher may go on meanwhile.
    ///
    /// # Errors
    ///
    /// When a reading fails; a statement that takes longer than the session allows is one of the reasons.
    pub async fn audit(&self, most: u32) -> Result<LedgerAudit, LedgerError> {
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
        let breaks = sqlx::query_file!("queries/audit_flush_log.sql", most)
            .fetch_all(&mut *reading)
            .await
            .map_err(failed("following the flush log"))?;
        reading.commit().await.map_err(failed("ending a reading"))?;
        lease.keep();
        let count = |count: i64| u64::try_from(count).unwrap_or_default();
        Ok(LedgerAudit {
            requests_without_event: count(requests.without_event),
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
        })
    }

    /// Number and link of the last entry of the batch of a shard that was committed last; `None` when none was.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub async fn last_flush(&self, shard: Shard) -> Result<Option<(u64, Chain)>, LedgerError> {
        let row = sqlx::query_file!("queries/last_flush.sql", i32::from(shard.index()))
            .fetch_optional(&self.pool)
            .await
            .map_err(|error| self.failed("reading the flush log", error))?;
        let Some(row) = row else { return Ok(None) };
        let unreadable = |column, value: String| LedgerError::Unreadable { column, value };
        let seq =
            u64::try_from(row.last_seq).map_err(|_| unreadable("last_seq", row.last_seq.to_string()))?;
        let chain = <[u8; 20]>::try_from(&row.chain[..])
            .map_err(|_| unreadable("chain", format!("{} bytes", row.chain.len())))?;
        Ok(Some((seq, Chain::from(chain))))
    }
}
