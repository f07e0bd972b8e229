//! One step of the hand-off: peek a window, then commit and acknowledge it batch by batch.
//!
//! ```text
//!   enqueued --peek--> peeked --commit--> committed --acknowledge--> gone
//!      ^                  |                   |
//!      +--- any failure --+---- any failure --+   (the same entries come again; the ledger knows their ids)
//!
//!   peek a, b, c | commit a | commit b      | commit c                   | commit d      | ...
//!                           | acknowledge a | acknowledge b, peek c, d, e | acknowledge c | ...
//! ```
//!
//! It has no I/O, no runtime and no clock of its own, so that a simulation can interrupt it anywhere.
//!
//! The order is the whole safety argument. Nothing is acknowledged that the ledger has not committed; what was
//! committed and not acknowledged comes again and changes nothing. That one batch is acknowledged while the next is committed
//! changes neither: each has a receipt of its own, and they are given back one after the other.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use spend_queue::{Acked, BatchLimit, Entry, Index, Peeked, QueueError, Receipt, Shard, SpendQueue, Stop};
use tracing::{Instrument, Span};

use crate::flush_error::FlushError;
use crate::ledger::{Settlement, SpendLedger};
use crate::spans::{self, Outcome};

/// A flusher makes the index of a shard anew when so many entries are left or fewer: one step of the server goes through all of
/// them, and each step may be an occasion. An operator can do it with more (`usage-flusher repair`).
const MEND_BELOW: u64 = 10_000;

/// How many batches one peek asks for. The first of all but the first window is the last batch of the window before it, so of more
/// batches fewer are read twice; and memory holds a window and a batch.
const WINDOW_BATCHES: u32 = 4;

/// How many windows a step goes on to at most: whoever made it learns of it after so many, and paces the next one.
const WINDOWS: u32 = 6;

/// Carries one window at a time from a queue into a ledger.
///
/// It holds no state: every step starts from what queue and ledger say, so any number of flushers may run at
/// once, and one may die anywhere.
#[derive(Debug, Clone)]
pub struct Flusher<Q, L> {
    queue: Q,
    ledger: L,
}

/// What a step took off the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flushed {
    /// Entries that were committed and taken off; 0 when the shard was empty.
    pub entries: u64,
    /// Entries that the shard held when the step ended, as far as it knows.
    pub left: u64,
}

/// What one step did, and how it ended.
#[derive(Debug)]
pub struct Step<Q: QueueError, L: std::error::Error + 'static> {
    /// What it took off the queue: before it failed, if it did.
    pub flushed: Flushed,
    /// Why it did not finish, if it did not.
    pub outcome: Result<(), FlushError<Q, L>>,
}

/// Entries that are committed together, and the span that tells of them.
struct Batch {
    shard: Shard,
    entries: Arc<[Entry]>,
    span: Span,
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

    /// Carries batches of at most `size` entries of a shard: at most four, and up to fifteen more if they stand behind
    /// these by then.
    ///
    /// `clock` is asked once a batch, when its commit begins: a step may last for minutes, and an event without any time counts as
    /// of its own commit. `goes_on` is asked between two batches. When it says no, what is committed is acknowledged, and the
    /// step ends.
    ///
    /// Dropping the future is safe at every point: what is not acknowledged comes again. That a commit is not cancelled
    /// half-way is [`crate::Uncancelled`]'s business.
    ///
    /// [`Step::outcome`] says which part failed, if one did. Every step may be repeated.
    pub async fn step(
        &self,
        shard: Shard,
        size: BatchLimit,
        clock: impl Fn() -> DateTime<Utc> + Send,
        goes_on: impl Fn() -> bool + Send,
    ) -> Step<Q::Error, L::Error> {
        let mut flushed = Flushed::default();
        let outcome = self.carry(shard, size, clock, goes_on, &mut flushed).await;
        Step { flushed, outcome }
    }

    async fn carry(
        &self,
        shard: Shard,
        size: BatchLimit,
        clock: impl Fn() -> DateTime<Utc> + Send,
        goes_on: impl Fn() -> bool + Send,
        flushed: &mut Flushed,
    ) -> Result<(), FlushError<Q::Error, L::Error>> {
        let span = spans::batch(shard);
        let window = self.peek(shard, size).instrument(span.clone()).await;
        let window = window.map_err(|error| failed(&span, error))?;
        flushed.left = window.depth;
        if window.entries.is_empty() {
            spans::describe_entries(&span, 0, None);
            spans::conclude(&span, Outcome::Idle);
            return Ok(());
        }
        let batch_size = usize::try_from(size.get()).unwrap_or(usize::MAX);
        let (mut entries, mut index, mut windows) = (window.entries.into_iter(), window.index, 1);
        let (mut first, mut before) = (Some(span), None::<Batch>);
        while before.is_none() || (entries.len() > 0 && goes_on()) {
            let span = first.take().unwrap_or_else(|| spans::batch(shard));
            let batch = Batch { shard, entries: entries.by_ref().take(batch_size).collect(), span };
            // A window of one batch is as much as a peek may return: no more of it would be seen.
            let looks_behind = before.is_some() && entries.len() == 0 && windows < WINDOWS && goes_on();
            let (committed, taken) =
                tokio::join!(self.commit(&batch, clock()).instrument(batch.span.clone()), async {
                    let taken = self.acknowledge(before.as_ref(), flushed).await?;
                    let there_is_more = taken && flushed.left > batch.len();
                    let behind = if looks_behind && there_is_more {
                        self.peek_behind(&batch, size).await
                    } else {
                        None
                    };
                    Ok((taken, behind))
                });
            if committed.is_ok() && !matches!(taken, Ok((true, _))) {
                spans::conclude(&batch.span, Outcome::Committed);
            }
            let (taken, behind) = taken?;
            committed?;
            if !taken {
                return Ok(());
            }
            before = Some(batch);
            if let Some(behind) = behind {
                (entries, index, windows) = (behind.entries.into_iter(), behind.index, windows + 1);
            }
        }
        self.acknowledge(before.as_ref(), flushed).await?;
        if index == Index::Doubtful {
            self.mend_index(shard, flushed.left).await;
        }
        Ok(())
    }

    /// Looks at the head of a shard, from which batches are taken.
    async fn peek(&self, shard: Shard, size: BatchLimit) -> Result<Peeked, FlushError<Q::Error, L::Error>> {
        let window = BatchLimit::new(size.get().saturating_mul(WINDOW_BATCHES)).unwrap_or(BatchLimit::MAX);
        let span = spans::peek();
        let peeked = spans::within(span.clone(), self.queue.peek(shard, window)).await;
        let peeked = peeked.map_err(FlushError::Peek)?;
        spans::describe_entries(&span, u64::try_from(peeked.entries.len()).unwrap_or(u64::MAX), None);
        match &peeked.stop {
            Some(Stop::Corrupt { error, .. }) if peeked.entries.is_empty() => {
                return Err(FlushError::CorruptHead { shard, error: error.clone() });
            }
            Some(stop) => warn_of(shard, stop),
            None => {}
        }
        Ok(peeked)
    }

    /// What stands behind a batch that is at the head and not yet acknowledged. A failure is left to the next step's own peek, and so
    /// is a head that is no longer this batch.
    async fn peek_behind(&self, batch: &Batch, size: BatchLimit) -> Option<Peeked> {
        let mut window = self.peek(batch.shard, size).instrument(batch.span.clone()).await.ok()?;
        let head = window.entries.get(..batch.entries.len())?;
        if head.iter().zip(batch.entries.iter()).any(|(entry, known)| entry.raw() != known.raw()) {
            return None;
        }
        window.entries.drain(..batch.entries.len());
        (!window.entries.is_empty()).then_some(window)
    }

    /// Commits a batch, within its span.
    async fn commit(&self, batch: &Batch, now: DateTime<Utc>) -> Result<(), FlushError<Q::Error, L::Error>> {
        let Batch { shard, entries, span } = batch;
        let number = |entry: Option<&Entry>| entry.and_then(|entry| entry.link).map(|link| link.seq);
        let (first_seq, last_seq) = (number(entries.first()), number(entries.last()));
        spans::describe_entries(span, batch.len(), first_seq.zip(last_seq));
        let settlement = Settlement {
            epoch: self.queue.epoch(),
            shard: *shard,
            entries: Arc::clone(entries),
            committed_at: now,
        };
        let committed = spans::within(spans::commit(), self.ledger.commit(settlement)).await;
        let committed = committed.map_err(|error| failed(span, FlushError::Commit(error)))?;
        tracing::info!(
            shard = shard.index(),
            first_seq,
            last_seq,
            entries = batch.len(),
            new = committed.new,
            duplicates = committed.duplicates,
            conflicts = committed.conflicts.len(),
            "batch committed"
        );
        Ok(())
    }

    /// Takes a committed batch off its shard, if there is one; answers whether the shard's head was what the batch is.
    async fn acknowledge(
        &self,
        batch: Option<&Batch>,
        flushed: &mut Flushed,
    ) -> Result<bool, FlushError<Q::Error, L::Error>> {
        let Some(batch) = batch else { return Ok(true) };
        // Here and not before: digest and sums are made while the next batch is committed.
        let Some(receipt) = Receipt::of(batch.shard, &batch.entries) else { return Ok(true) };
        let acknowledged = async { spans::within(spans::acknowledge(), self.queue.ack(&receipt)).await };
        let acknowledged = acknowledged.instrument(batch.span.clone()).await;
        let shard = batch.shard.index();
        match acknowledged.map_err(|error| failed(&batch.span, FlushError::Ack(error)))? {
            Acked::Done { depth, short_counters } => {
                spans::conclude(&batch.span, Outcome::Acknowledged);
                if short_counters > 0 {
                    tracing::warn!(shard, short_counters, "pending spend held less than was taken off");
                }
                *flushed = Flushed { entries: flushed.entries + batch.len(), left: depth };
                Ok(true)
            }
            Acked::Changed => {
                spans::conclude(&batch.span, Outcome::HeadChanged);
                tracing::warn!(
                    shard,
                    entries = batch.len(),
                    "the queue's head changed; nothing was taken off"
                );
                Ok(false)
            }
        }
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

/// Ends the span of a batch that failed.
fn failed<Q: QueueError, L: std::error::Error + 'static>(
    span: &Span,
    error: FlushError<Q, L>,
) -> FlushError<Q, L> {
    spans::conclude_failed(span, error.step(), &error);
    error
}

impl Batch {
    fn len(&self) -> u64 {
        u64::try_from(self.entries.len()).unwrap_or(u64::MAX)
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
