//! Committing a batch: each request once, whatever is repeated, by whomever, in whatever order.

mod claim;
mod rollup;
mod rows;

use chrono::{DateTime, Utc};
use spend_queue::{Entry, Shard, Usd};
use sqlx::{Connection, PgConnection};

use crate::{Ledger, LedgerError};
use claim::Claims;
use rollup::{Charges, DailySums};
use rows::EventColumns;

/// Entries of one shard, in the order of the queue, to be committed together.
///
/// Numbers and link for the flush log are those of the first and the last entry, so they cannot contradict them. A part
/// of what was peeked is as good a batch as the whole.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    /// Where they were peeked.
    pub shard: Shard,
    /// The entries, oldest first.
    pub entries: &'a [Entry],
    /// The committer's clock. An event without any time counts as of now; microseconds are kept.
    pub committed_at: DateTime<Utc>,
}

/// What became of a batch: `new + duplicates + conflicts.len()` is its length.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Committed {
    /// Entries that were settled now.
    pub new: u64,
    /// Entries that were settled before, or earlier in the batch, with the same payload. They changed nothing.
    pub duplicates: u64,
    /// Request ids of entries that were settled before, or earlier in the batch, with another payload. The first
    /// payload stays; somebody must look at why one id named two calls.
    pub conflicts: Vec<String>,
    /// The sum of what the new entries cost.
    pub cost: Usd,
}

impl Ledger {
    /// Commits a batch in one transaction of at most six statements, whatever its size. When it returns `Ok`, everything
    /// is on disk and the batch may be acknowledged; on any error nothing was committed, except for
    /// [`LedgerError::OutcomeUnknown`], where all or nothing was.
    ///
    /// # Idempotence
    ///
    /// Only request ids that nobody settled before count. The same entries again, in the same or another batch, alone or
    /// together with others, change no sum. So the answer to every transient error is to run the batch again.
    ///
    /// # Concurrency
    ///
    /// Rows are written in one order everywhere (request ids, then daily sums, then scopes and periods), so that committers
    /// wait for each other but do not deadlock.
    ///
    /// # Cancellation
    ///
    /// Dropping the future abandons the batch safely: its connection is closed and not returned to the pool, and the server
    /// rolls back, unless it was already committing. Since the outcome is then unknown, let a task of its own
    /// run this to its end. It relies on the server to roll back when the connection closes, and on
    /// `idle_in_transaction_session_timeout` when it does not notice.
    ///
    /// # Errors
    ///
    /// [`LedgerError::is_transient`] tells whether to run the batch again, [`LedgerError::blames_data`] whether to look
    /// for the entry that PostgreSQL refuses.
    pub async fn commit(&self, batch: &Batch<'_>) -> Result<Committed, LedgerError> {
        let (Some(first), Some(last)) = (batch.entries.first(), batch.entries.last()) else {
            return Ok(Committed::default());
        };
        let log = FlushLog::of(batch, first, last)?;
        let mut lease = self.lease().await?;
        let mut transaction = lease
            .connection()
            .begin_with("begin isolation level read committed read write")
            .await
            .map_err(LedgerError::query("beginning a transaction"))?;
        // Boxed: the future holds a batch's worth of columns by name.
        match Box::pin(write(&mut transaction, batch, log.as_ref())).await {
            Ok(committed) => {
                transaction.commit().await.map_err(LedgerError::at_commit)?;
                lease.keep();
                report(batch, &committed);
                Ok(committed)
            }
            Err(error) => {
                // A refusal leaves a sound connection, if it answers to this.
                if error.is_answer() && transaction.rollback().await.is_ok() {
                    lease.keep();
                }
                Err(error)
            }
        }
    }
}

async fn write(
    connection: &mut PgConnection,
    batch: &Batch<'_>,
    log: Option<&FlushLog<'_>>,
) -> Result<Committed, LedgerError> {
    let committed_at = rows::to_micros(batch.committed_at);
    let claims = Claims::of(batch.entries);
    let verdict = claims.settle(connection, committed_at).await?;
    let fresh = verdict.fresh;
    let cost = fresh.iter().filter_map(|entry| entry.event.cost);
    let cost = Usd::checked_sum(cost).ok_or_else(|| LedgerError::OutOfRange {
        what: "the cost of a batch",
        value: "more than an i128 of picodollars".to_owned(),
        bound: crate::MAX_BUDGET.to_string(),
    })?;
    if !fresh.is_empty() {
        EventColumns::of(&fresh, committed_at)?.insert(connection, committed_at).await?;
        DailySums::of(&fresh, committed_at)?.add(connection).await?;
        Charges::of(&fresh, committed_at)?.add(connection).await?;
        crate::hold::settle(connection, &fresh, committed_at).await?;
    }
    if let Some(log) = log {
        log.write(connection, committed_at).await?;
    }
    let new = fresh.len() as u64;
    Ok(Committed { new, duplicates: verdict.duplicates, conflicts: verdict.conflicts, cost })
}

/// The batch's record, with numbers that fit their columns.
struct FlushLog<'a> {
    shard: i32,
    first_seq: i64,
    last_seq: i64,
    chain: &'a [u8; 20],
    events: i32,
}

impl<'a> FlushLog<'a> {
    /// `None` for entries of an older deployment: they have no chain whose continuity could be checked later.
    fn of(batch: &Batch<'_>, first: &Entry, last: &'a Entry) -> Result<Option<Self>, LedgerError> {
        let (Some(first), Some(last)) = (first.link.as_ref(), last.link.as_ref()) else { return Ok(None) };
        let too_large = |what, value: String, bound: String| LedgerError::OutOfRange { what, value, bound };
        let seq = |seq: u64| {
            i64::try_from(seq)
                .map_err(|_| too_large("a sequence number", seq.to_string(), i64::MAX.to_string()))
        };
        let events = batch.entries.len();
        Ok(Some(Self {
            shard: i32::from(batch.shard.index()),
            first_seq: seq(first.seq)?,
            last_seq: seq(last.seq)?,
            chain: last.chain.as_bytes(),
            events: i32::try_from(events)
                .map_err(|_| too_large("the size of a batch", events.to_string(), i32::MAX.to_string()))?,
        }))
    }

    async fn write(&self, connection: &mut PgConnection, at: DateTime<Utc>) -> Result<(), LedgerError> {
        sqlx::query_file!(
            "queries/log_flush.sql",
            self.shard,
            self.first_seq,
            self.last_seq,
            self.chain.as_slice(),
            self.events,
            at
        )
        .execute(connection)
        .await
        .map_err(LedgerError::query("recording the flush"))?;
        Ok(())
    }
}

fn report(batch: &Batch<'_>, committed: &Committed) {
    tracing::debug!(
        shard = batch.shard.index(),
        new = committed.new,
        duplicates = committed.duplicates,
        conflicts = committed.conflicts.len(),
        cost = %committed.cost,
        "batch committed"
    );
    for request_id in &committed.conflicts {
        tracing::warn!(request_id, "request id was settled with another payload; the first one stays");
    }
}
