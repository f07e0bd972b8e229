//! Committing a batch: each request once, whatever is repeated, by whomever, in whatever order.
//!
//! ```text
//!   together ──ok──────────────────────────────► dead letters, flush log, COMMIT
//!      │ the data is to blame: roll back                 ▲
//!      ▼                                                 │
//!   bisected (savepoints): halves, quarters, ... single entries that are refused
//!
//!   a lock conflict, or a COMMIT without an answer: the whole again, a few times
//! ```

mod binary_row;
mod bisect;
mod claim;
mod events;
mod flush_log;
mod part;
mod patience;
mod rollup;

use chrono::{DateTime, Utc};
use spend_queue::{Entry, Epoch, Shard, Usd};
use sqlx::Connection;

use crate::dead_letter;
use crate::lease::BEGIN;
use crate::{Ledger, LedgerError};
use flush_log::FlushLog;
pub(crate) use flush_log::seq_of;
pub(crate) use part::{Settled, Times, settle};
pub(crate) use patience::Patience;

/// Entries of one shard, in the order of the queue, to be committed together.
///
/// Numbers and link for the flush log are those of the first and the last entry, so they cannot contradict them. A part
/// of what was peeked is as good a batch as the whole.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    /// The history that their numbers belong to.
    pub epoch: &'a Epoch,
    /// Where they were peeked.
    pub shard: Shard,
    /// The entries, oldest first.
    pub entries: &'a [Entry],
    /// The committer's clock. An event without any time counts as of now; microseconds are kept.
    pub committed_at: DateTime<Utc>,
}

/// What became of a batch: `new + duplicates + conflicts.len() + refused` is its length.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Committed {
    /// Entries that were settled now.
    pub new: u64,
    /// Entries that were settled before, or earlier in the batch, with the same payload. They changed nothing.
    pub duplicates: u64,
    /// Request ids of entries that were settled before, or earlier in the batch, with another payload. The first
    /// payload stays; somebody must look at why one id named two calls. Each is a dead letter.
    pub conflicts: Vec<String>,
    /// Entries that cannot be settled ([`Entry::problem`]), or that PostgreSQL refused. They count nowhere; each is a dead letter,
    /// to be replayed when the cause is mended.
    pub refused: u64,
    /// The sum of what the new entries cost.
    pub cost: Usd,
}

/// How to settle the entries of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// As one set: what nearly every batch allows.
    Together,
    /// Bisected, after the set was refused for its data.
    Bisected,
}

impl Ledger {
    /// Commits a batch in one transaction of a handful of statements, whatever its size. When it returns `Ok`, everything
    /// is on disk and the batch may be acknowledged; on any error nothing was committed, except for
    /// [`LedgerError::OutcomeUnknown`], where all or nothing was.
    ///
    /// # Idempotence
    ///
    /// Only request ids that nobody settled before count. The same entries again, in the same or another batch, alone or
    /// together with others, change no sum and make no second dead letter. So the answer to every transient error is to
    /// run the batch again.
    ///
    /// # What is refused
    ///
    /// An entry with a [`Entry::problem`] becomes a dead letter with its bytes and its problem.
    ///
    /// When a value of the batch is to blame ([`LedgerError::blames_data`]), the batch is bisected inside one
    /// transaction: what is refused alone becomes a dead letter with its bytes and its reason, and everything else
    /// commits, together with the dead letters and the flush log, or not at all. A batch of `n` entries with `k` refused
    /// ones costs at most `2 k log2(n)` attempts at a part.
    ///
    /// # Concurrency
    ///
    /// Rows are written in one order everywhere (request ids, then daily sums, then scopes and periods, then dead
    /// letters), so that committers wait for each other but do not deadlock. A bisected batch cannot keep that order
    /// between its parts. Serialization failures, deadlocks and lock timeouts (40001, 40P01, 55P03) are rolled back and
    /// tried again here, a few times with growing random waits, before the caller sees them.
    ///
    /// A COMMIT without an answer is tried again in the same way: if it had succeeded, the entries that it settled are
    /// reported as duplicates.
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
    /// [`LedgerError::is_transient`] tells whether to run the batch again.
    pub async fn commit(&self, batch: &Batch<'_>) -> Result<Committed, LedgerError> {
        if batch.entries.is_empty() {
            return Ok(Committed::default());
        }
        let log = FlushLog::of(batch)?;
        let mut patience = Patience::new();
        let mut way = Way::Together;
        loop {
            let error = match self.attempt(batch, log.as_ref(), way).await {
                Ok(committed) => return Ok(committed),
                Err(error) => error,
            };
            // What a deferred constraint refuses at COMMIT has no part to blame.
            if way == Way::Together && error.blames_data() && !error.is_at_commit() {
                tracing::warn!(shard = batch.shard.index(), %error, "a value was refused; the batch is bisected");
                way = Way::Bisected;
                continue;
            }
            let wait = patience.after(error)?;
            tokio::time::sleep(wait).await;
        }
    }

    /// One transaction.
    async fn attempt(
        &self,
        batch: &Batch<'_>,
        log: Option<&FlushLog>,
        way: Way,
    ) -> Result<Committed, LedgerError> {
        let mut lease = self.lease().await?;
        let mut transaction = lease
            .connection()
            .begin_with(BEGIN)
            .await
            .map_err(LedgerError::query("beginning a transaction"))?;
        // What says itself that it cannot be settled is kept aside without asking the server.
        let (entries, refused): (Vec<&Entry>, Vec<&Entry>) =
            batch.entries.iter().partition(|entry| entry.problem().is_none());
        let times = Times::at(batch.committed_at);
        // Boxed: the futures hold a batch's worth of columns by name.
        let written = Box::pin(async {
            let mut settled = match way {
                Way::Together => settle(&mut transaction, &entries, times).await?,
                Way::Bisected => bisect::settle(&mut transaction, &entries, times).await?,
            };
            settled.refuse(&refused);
            dead_letter::record(&mut transaction, batch.shard.index().into(), &settled, times.settled_at)
                .await?;
            if let Some(log) = log {
                log.write(&mut transaction, times.settled_at).await?;
            }
            Ok(settled)
        })
        .await;
        match written {
            Ok(settled) => {
                transaction.commit().await.map_err(LedgerError::at_commit)?;
                lease.keep();
                Ok(report(batch, &settled))
            }
            Err(error) => {
                // A refusal leaves a sound connection, if it answers to this.
                if LedgerError::is_answer(&error) && transaction.rollback().await.is_ok() {
                    lease.keep();
                }
                Err(error)
            }
        }
    }
}

/// The answer, and a word in the log about what somebody should look at.
fn report(batch: &Batch<'_>, settled: &Settled<'_>) -> Committed {
    let shard = batch.shard.index();
    for entry in &settled.conflicts {
        let request_id = &*entry.event.request_id;
        tracing::warn!(shard, request_id, "request id was settled with another payload; the first one stays");
    }
    for (entry, error) in &settled.refused {
        let request_id = &*entry.event.request_id;
        tracing::error!(shard, request_id, %error, "an entry was refused; it is kept as a dead letter");
    }
    let committed = settled.committed();
    tracing::debug!(
        shard,
        new = committed.new,
        duplicates = committed.duplicates,
        conflicts = committed.conflicts.len(),
        refused = committed.refused,
        cost = %committed.cost,
        "batch committed"
    );
    committed
}
