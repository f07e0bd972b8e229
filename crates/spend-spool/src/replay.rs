//! Taking what is spooled back to the queue.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use futures_util::{StreamExt, stream};
use spend_queue::{Enqueued, QueueError, SpendQueue};

use crate::StorageError;
use crate::queue::Shared;
use crate::record::Record;
use crate::store::Change;

/// Replays a spool into its queue, oldest first.
///
/// An event leaves the spool only after the queue answered, in a transaction of its own: a process that dies in between
/// sends it again, and the queue calls it a duplicate. Up to [`crate::SpoolOptions::replay_concurrency`] events are on
/// their way at once, so neighbours may arrive swapped.
///
/// An event that the queue refuses for good, or for a reason of its own (an error that is not transient, or that concerns one
/// event), is set aside, on disk, and no longer blocks
/// those behind it. It is asked again when nothing else waits, each in its turn, and still counts as waiting.
#[derive(Debug)]
pub struct Replayer<Q> {
    shared: Arc<Shared<Q>>,
    /// The last event of those set aside that was asked again.
    aside: AtomicU64,
}

/// What one step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Replayed {
    /// Events that the queue took now.
    pub accepted: u64,
    /// Events that the queue had already.
    pub duplicates: u64,
    /// Events that the queue called conflicts; see [`crate::Spool::conflicts`].
    pub conflicts: u64,
    /// Events that the queue refused for good and that were asked for the first time.
    pub set_aside: u64,
    /// Events that stay where they are: after a transient error, or refused once more.
    pub stayed: u64,
}

impl Replayed {
    /// How many events left the spool.
    #[must_use]
    pub const fn settled(&self) -> u64 {
        self.accepted + self.duplicates + self.conflicts
    }
}

enum Outcome {
    Answered(Enqueued),
    Refused,
    Failed,
}

impl<Q: SpendQueue> Replayer<Q> {
    pub(crate) fn new(shared: Arc<Shared<Q>>) -> Self {
        Self { shared, aside: AtomicU64::new(0) }
    }

    /// Replays whenever something waits, until `stop` is ready; a step under way is finished first. After a step that
    /// took nothing off the spool it waits: longer each time, with jitter, between the two waits of
    /// [`crate::SpoolOptions`].
    pub async fn run(&self, stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop);
        let mut waits = self.waits();
        loop {
            let spool = &self.shared.spool;
            let pause = if spool.is_surely_empty() {
                None
            } else {
                match self.replay_once().await {
                    Ok(replayed) if replayed.settled() > 0 => {
                        waits = self.waits();
                        Some(Duration::ZERO)
                    }
                    Ok(_) => Some(waits.next().unwrap_or(spool.options().longest_wait)),
                    Err(StorageError::Closed) => return,
                    Err(error) => {
                        tracing::error!(%error, "the spool cannot be replayed");
                        Some(waits.next().unwrap_or(spool.options().longest_wait))
                    }
                }
            };
            let next = async {
                match pause {
                    None => spool.work().await,
                    Some(pause) if pause.is_zero() => tokio::task::yield_now().await,
                    Some(pause) => tokio::time::sleep(pause).await,
                }
            };
            tokio::select! {
                biased;
                () = &mut stop => return,
                () = next => {}
            }
        }
    }

    /// One step: one batch, each event asked at most once. After the first transient error those not yet sent stay unsent.
    ///
    /// # Errors
    ///
    /// When the spool's file cannot be read or written, or a record is damaged. What the queue has taken stays spooled
    /// then and is found to be a duplicate later.
    pub async fn replay_once(&self) -> Result<Replayed, StorageError> {
        let Shared { spool, .. } = &*self.shared;
        let options = spool.options();
        let most = usize::try_from(options.replay_batch).unwrap_or(usize::MAX);
        let at_once = usize::try_from(options.replay_concurrency).unwrap_or(usize::MAX);
        let batch = spool.waiting(self.aside.load(Ordering::Relaxed), most).await?;
        if let (true, Some((last, _))) = (batch.aside, batch.records.last()) {
            self.aside.store(*last, Ordering::Relaxed);
        }
        let failed = &AtomicBool::new(false);
        let outcomes: Vec<_> = stream::iter(batch.records)
            .map(async |(seq, record)| Ok((seq, self.send(seq, &record, failed).await?)))
            .buffer_unordered(at_once)
            .collect()
            .await;

        let (mut done, mut change, mut damaged) = (Replayed::default(), Change::default(), None);
        for outcome in outcomes {
            match outcome {
                Ok((seq, Outcome::Answered(Enqueued::Conflict))) => {
                    done.conflicts += 1;
                    change.conflicts.push(seq);
                }
                Ok((seq, Outcome::Answered(answer))) => {
                    match answer {
                        Enqueued::Accepted { .. } => done.accepted += 1,
                        _ => done.duplicates += 1,
                    }
                    change.remove.push(seq);
                }
                Ok((seq, Outcome::Refused)) if !batch.aside => {
                    done.set_aside += 1;
                    change.set_aside.push(seq);
                }
                Ok((_, Outcome::Refused | Outcome::Failed)) => done.stayed += 1,
                Err(error) => damaged = Some(error),
            }
        }
        if done.settled() + done.set_aside > 0 {
            spool.settle(change).await?;
        }
        metrics::counter!("tallyweir_spool_replayed_total").increment(done.accepted + done.duplicates);
        metrics::counter!("tallyweir_spool_conflicts_total").increment(done.conflicts);
        metrics::counter!("tallyweir_spool_set_aside_total").increment(done.set_aside);
        damaged.map_or(Ok(done), Err)
    }

    async fn send(&self, seq: u64, record: &Record, failed: &AtomicBool) -> Result<Outcome, StorageError> {
        if failed.load(Ordering::Relaxed) {
            return Ok(Outcome::Failed);
        }
        let event = record
            .rebuild()
            .map_err(|what| StorageError::Damaged(format!("record {seq} cannot be rebuilt: {what}")))?;
        match self.shared.ask(&event).await {
            Ok(answer) => {
                if answer == Enqueued::Conflict {
                    tracing::error!(
                        request_id = event.request_id(),
                        event = format!("{{{}", record.body),
                        "a spooled event is not billed: another is queued under its request id; the spool keeps it"
                    );
                }
                Ok(Outcome::Answered(answer))
            }
            Err(error) if error.is_transient() && !error.is_of_one_event() => {
                failed.store(true, Ordering::Relaxed);
                Ok(Outcome::Failed)
            }
            Err(error) => {
                tracing::warn!(request_id = event.request_id(), %error, "the queue refuses a spooled event; it is asked again when no other waits");
                Ok(Outcome::Refused)
            }
        }
    }

    fn waits(&self) -> ExponentialBackoff {
        let options = self.shared.spool.options();
        ExponentialBuilder::default()
            .with_min_delay(options.shortest_wait)
            .with_max_delay(options.longest_wait)
            .without_max_times()
            .with_jitter()
            .build()
    }
}

#[cfg(test)]
mod tests {
    use chrono::Utc;
    use spend_queue::{MemoryQueue, ScopeRef, ShardCount, SpendEvent};

    use crate::store::{Changed, Index, Totals};
    use crate::{Spool, SpoolOptions};

    /// A failure that came after the write leaves an event in the file of which no handle knows.
    #[tokio::test]
    async fn what_a_failed_write_left_in_the_file_is_replayed_without_another_event() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::open(folder.path().join("spool"), SpoolOptions::default()).unwrap();
        let event = SpendEvent::new("r-1", "m", vec![ScopeRef::new("team", "t").unwrap()]);
        spool.keep(&event.encode(Utc::now()).unwrap()).await.unwrap();
        let nothing = Changed { totals: Totals::default(), oldest: None, gone: Vec::new() };
        spool.forget_after_a_failure(&nothing, Index::new());
        let wrapped = spool.wrap(MemoryQueue::new(ShardCount::ONE));
        let replayer = wrapped.replayer();
        let delivered = async {
            while spend_queue::SpendQueue::depth(wrapped.queue(), ShardCount::ONE.shard_of("any"))
                .await
                .unwrap()
                == 0
            {
                tokio::task::yield_now().await;
            }
        };
        replayer.run(delivered).await;
    }
}
