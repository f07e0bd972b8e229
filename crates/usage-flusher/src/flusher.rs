//! One step of the hand-off: peek, commit, acknowledge.
//!
//! ```text
//!   enqueued --peek--> peeked --commit--> committed --acknowledge--> gone
//!      ^                  |                   |
//!      +--- any failure --+---- any failure --+   (the same entries come again; the ledger knows their ids)
//! ```
//!
//! It has no I/O, no runtime and no clock of its own, so that a simulation can interrupt it anywhere.
//!
//! The order is the whole safety argument. Nothing is acknowledged that the ledger has not committed; what was
//! committed and not acknowledged comes again and changes nothing.

use chrono::{DateTime, Utc};
use iam_ledger::Committed;
use spend_queue::{Acked, BatchLimit, EntryError, Index, QueueError, Shard, SpendQueue, Stop};
use thiserror::Error;
use tracing::{Instrument, Span};

use crate::ledger::{Settlement, SpendLedger};
use crate::spans::{self, Outcome};

/// A flusher makes the index of a shard anew when so many entries are left or fewer: one step of the server goes through all of
/// them, and each batch may be an occasion. An operator can do it with more (`usage-flusher repair`).
const MEND_BELOW: u64 = 10_000;

/// Carries one batch at a time from a queue into a ledger.
///
/// It holds no state: every step starts from what queue and ledger say, so any number of flushers may run at
/// once, and one may die anywhere.
#[derive(Debug, Clone)]
pub struct Flusher<Q, L> {
    queue: Q,
    ledger: L,
}

/// What one step did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flushed {
    /// Entries of the batch; 0 when the shard was empty.
    pub entries: u64,
    /// Entries that the shard held when the step ended, as far as it knows.
    pub left: u64,
    /// What the ledger did with them.
    pub committed: Committed,
}

/// Why a step did not finish. Nothing is lost: the entries are still queued.
#[derive(Debug, Error)]
pub enum FlushError<Q: QueueError, L: std::error::Error + 'static> {
    /// The queue could not be read.
    #[error("peek: {0}")]
    Peek(#[source] Q),
    /// The ledger did not commit, or its answer was lost.
    #[error("commit: {0}")]
    Commit(#[source] L),
    /// The batch is committed, and its acknowledgement failed or was lost.
    #[error("acknowledge (the batch is committed): {0}")]
    Ack(#[source] Q),
    /// The head of the shard is no entry. An operator must look; the other shards go on.
    #[error("the head of shard {shard} cannot be read: {error}")]
    CorruptHead {
        /// The shard that stands still.
        shard: Shard,
        /// What is wrong with its head.
        error: EntryError,
    },
}

impl<Q: SpendQueue, L: SpendLedger> Flusher<Q, L> {
    /// A flusher between these two.
    pub const fn new(queue: Q, ledger: L) -> Self {
        Self { queue, ledger }
    }

    /// The queue that it drains.
    pub const fn queue(&self) -> &Q {
        &self.queue
    }

    /// Carries at most `limit` entries of a shard.
    ///
    /// Dropping the future is safe at every point: what is not acknowledged comes again. That a commit is not cancelled
    /// half-way is [`crate::Uncancelled`]'s business.
    ///
    /// # Errors
    ///
    /// [`FlushError`] says which part failed. Every step may be repeated.
    pub async fn step(
        &self,
        shard: Shard,
        limit: BatchLimit,
        now: DateTime<Utc>,
    ) -> Result<Flushed, FlushError<Q::Error, L::Error>> {
        let span = spans::batch(shard);
        let step = self.carry(shard, limit, now, &span).instrument(span.clone()).await;
        if let Err(error) = &step {
            spans::conclude_failed(&span, error.step(), error);
        }
        step
    }

    /// The step itself, which tells its span what it carries.
    async fn carry(
        &self,
        shard: Shard,
        limit: BatchLimit,
        now: DateTime<Utc>,
        span: &Span,
    ) -> Result<Flushed, FlushError<Q::Error, L::Error>> {
        let peeking = spans::peek();
        let peeked = spans::within(peeking.clone(), self.queue.peek(shard, limit)).await;
        let batch = peeked.map_err(FlushError::Peek)?;
        spans::describe_entries(&peeking, u64::try_from(batch.entries.len()).unwrap_or(u64::MAX), None);
        drop(peeking);
        let (depth, index) = (batch.depth, batch.index);
        let Some(receipt) = batch.receipt() else {
            return match batch.stop {
                Some(Stop::Corrupt { error, .. }) => Err(FlushError::CorruptHead { shard, error }),
                _ => {
                    spans::describe_entries(span, 0, None);
                    spans::conclude(span, Outcome::Idle);
                    Ok(Flushed { entries: 0, left: depth, committed: Committed::default() })
                }
            };
        };
        spans::describe_entries(span, receipt.entries.into(), receipt.seqs);
        if let Some(stop) = &batch.stop {
            warn_of(shard, stop);
        }
        let settlement = Settlement { shard, entries: batch.entries.into(), committed_at: now };
        let committed = spans::within(spans::commit(), self.ledger.commit(settlement)).await;
        let committed = committed.map_err(FlushError::Commit)?;
        let entries = u64::from(receipt.entries);
        tracing::info!(
            shard = shard.index(),
            first_seq = receipt.seqs.map(|(first, _)| first),
            last_seq = receipt.seqs.map(|(_, last)| last),
            entries,
            new = committed.new,
            duplicates = committed.duplicates,
            conflicts = committed.conflicts.len(),
            depth,
            "batch committed"
        );
        let acknowledged = spans::within(spans::acknowledge(), self.queue.ack(&receipt)).await;
        let left = match acknowledged.map_err(FlushError::Ack)? {
            Acked::Done { depth, short_counters } => {
                spans::conclude(span, Outcome::Acknowledged);
                if short_counters > 0 {
                    tracing::warn!(
                        shard = shard.index(),
                        short_counters,
                        "pending spend held less than was taken off"
                    );
                }
                depth
            }
            Acked::Changed => {
                spans::conclude(span, Outcome::HeadChanged);
                tracing::warn!(
                    shard = shard.index(),
                    entries,
                    "the queue's head changed; nothing was taken off"
                );
                depth
            }
        };
        if index == Index::Doubtful {
            self.mend_index(shard, left).await;
        }
        Ok(Flushed { entries, left, committed })
    }

    /// Makes the index anew as soon as no foreign entry is left. A failure is no reason to stop the shard: strict reads go
    /// through the entries meanwhile, and the next step tries again.
    async fn mend_index(&self, shard: Shard, left: u64) {
        if left == 0 || left > MEND_BELOW {
            return;
        }
        match self.queue.reindex(shard).await {
            Ok(outcome) => {
                tracing::info!(shard = shard.index(), ?outcome, "index of pending spend was in doubt");
            }
            Err(error) => {
                tracing::warn!(shard = shard.index(), %error, "index of pending spend stays in doubt");
            }
        }
    }
}

impl<Q: QueueError, L: std::error::Error + 'static> FlushError<Q, L> {
    /// Whether the next step may succeed without anybody mending anything.
    pub fn is_transient<S: SpendLedger<Error = L>>(&self) -> bool {
        match self {
            Self::Peek(error) | Self::Ack(error) => error.is_transient(),
            Self::Commit(error) => S::is_transient(error),
            Self::CorruptHead { .. } => false,
        }
    }

    /// The name of what failed, for spans: low in number, as `error.type` must be.
    const fn step(&self) -> &'static str {
        match self {
            Self::Peek(_) => "peek",
            Self::Commit(_) => "commit",
            Self::Ack(_) => "acknowledge",
            Self::CorruptHead { .. } => "corrupt_head",
        }
    }
}

fn warn_of(shard: Shard, stop: &Stop) {
    let shard = shard.index();
    match stop {
        Stop::Corrupt { position, error, .. } => {
            tracing::error!(shard, position, %error, "an unreadable entry is next in the queue");
        }
        Stop::ChainBreak { position } => {
            tracing::warn!(shard, position, "the chain breaks: another hand changed the queue");
        }
        other => tracing::debug!(shard, ?other, "the batch ends early"),
    }
}
