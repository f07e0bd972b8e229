//! The order of a step, with models that fail where a test tells them to.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod support;

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use iam_ledger::Committed;
use spend_queue::{
    Acked, BatchLimit, EncodedEvent, Enqueued, Epoch, MemoryQueue, MemoryQueueError, Peeked, Receipt,
    Reindexed, Shard, ShardCount, SpendQueue, Usd,
};
use support::{event, now, shard, team};
use tokio::sync::Barrier;
use usage_flusher::{FlushError, Flushed, Flusher, Settlement, SpendLedger, Step};

/// Where a call fails: before it has done anything, or after, when only its answer is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Before,
    After,
}

/// A ledger in memory that fails once when told to.
#[derive(Debug, Clone, Default)]
struct ModelLedger(Arc<Mutex<Model>>);

#[derive(Debug, Default)]
struct Model {
    settled: HashMap<String, Usd>,
    fault: Option<Fault>,
    /// When each commit began, as it was told.
    instants: Vec<DateTime<Utc>>,
    /// Where a commit waits for the queue, when so many are settled.
    meets: Option<(usize, Arc<Barrier>)>,
}

#[derive(Debug, thiserror::Error)]
#[error("the model fails as told")]
struct Told;

impl ModelLedger {
    fn fail_once(&self, fault: Fault) {
        self.0.lock().unwrap().fault = Some(fault);
    }

    fn sum(&self) -> Usd {
        Usd::checked_sum(self.0.lock().unwrap().settled.values().copied()).unwrap()
    }

    fn count(&self) -> usize {
        self.0.lock().unwrap().settled.len()
    }
}

impl SpendLedger for ModelLedger {
    type Error = Told;

    async fn commit(&self, batch: Settlement) -> Result<Committed, Told> {
        let meets = self.0.lock().unwrap().meets.clone();
        if let Some((_, meets)) = meets.filter(|(settled, _)| self.count() == *settled) {
            meets.wait().await;
        }
        let Model { settled, fault, instants, .. } = &mut *self.0.lock().unwrap();
        instants.push(batch.committed_at);
        let fault = fault.take();
        let mut committed = Committed::default();
        if fault != Some(Fault::Before) {
            for entry in batch.entries.iter() {
                let cost = entry.event.cost.unwrap_or_default();
                if settled.insert(entry.event.request_id.clone(), cost).is_some() {
                    committed.duplicates += 1;
                } else {
                    committed.new += 1;
                }
            }
        }
        if fault.is_some() { Err(Told) } else { Ok(committed) }
    }

    fn is_transient(Told: &Told) -> bool {
        true
    }
}

/// The model queue, with an acknowledgement that fails once when told to.
#[derive(Default)]
struct ModelQueue {
    queue: MemoryQueue,
    fault: Mutex<Option<Fault>>,
    /// Acknowledgements that were asked for.
    acks: AtomicUsize,
    /// Where the first acknowledgement waits for a commit.
    ack_meets: Option<Arc<Barrier>>,
    /// Peeks that were asked for.
    peeks: AtomicUsize,
    /// Where the second peek waits for a commit.
    peek_meets: Option<Arc<Barrier>>,
}

impl SpendQueue for ModelQueue {
    type Error = MemoryQueueError;

    fn shards(&self) -> ShardCount {
        self.queue.shards()
    }

    fn epoch(&self) -> Epoch {
        self.queue.epoch()
    }

    fn enqueue(&self, event: &EncodedEvent) -> impl Future<Output = Result<Enqueued, Self::Error>> + Send {
        self.queue.enqueue(event)
    }

    async fn peek(&self, shard: Shard, limit: BatchLimit) -> Result<Peeked, Self::Error> {
        let second = self.peeks.fetch_add(1, Ordering::Relaxed) == 1;
        if let Some(meets) = self.peek_meets.as_ref().filter(|_| second) {
            meets.wait().await;
        }
        self.queue.peek(shard, limit).await
    }

    async fn ack(&self, receipt: &Receipt) -> Result<Acked, Self::Error> {
        let first = self.acks.fetch_add(1, Ordering::Relaxed) == 0;
        if let Some(meets) = self.ack_meets.as_ref().filter(|_| first) {
            meets.wait().await;
        }
        let fault = self.fault.lock().unwrap().take();
        let lost = MemoryQueueError::CounterOverflow(team());
        match fault {
            Some(Fault::Before) => Err(lost),
            Some(Fault::After) => self.queue.ack(receipt).await.and(Err(lost)),
            None => self.queue.ack(receipt).await,
        }
    }

    fn reindex(&self, shard: Shard) -> impl Future<Output = Result<Reindexed, Self::Error>> + Send {
        self.queue.reindex(shard)
    }

    fn depth(&self, shard: Shard) -> impl Future<Output = Result<u64, Self::Error>> + Send {
        self.queue.depth(shard)
    }
}

fn setup() -> (Flusher<ModelQueue, ModelLedger>, ModelLedger) {
    let (queue, ledger) = (ModelQueue::default(), ModelLedger::default());
    for id in ["a", "b", "c"] {
        queue.queue.enqueue_now(&event(id, 5)).unwrap();
    }
    (Flusher::new(queue, ledger.clone()), ledger)
}

fn limit(entries: u32) -> BatchLimit {
    BatchLimit::new(entries).unwrap()
}

type ModelStep = Step<MemoryQueueError, Told>;

/// One step in batches of at most two, to its end.
async fn step(flusher: &Flusher<ModelQueue, ModelLedger>) -> ModelStep {
    flusher.step(shard(), limit(2), now, || true).await
}

async fn drain(flusher: &Flusher<ModelQueue, ModelLedger>) {
    loop {
        let step = step(flusher).await;
        step.outcome.unwrap();
        if step.flushed.entries == 0 {
            return;
        }
    }
}

#[tokio::test]
async fn a_queue_is_carried_over_in_batches_and_each_event_once() {
    let (flusher, ledger) = setup();
    let all = step(&flusher).await;
    all.outcome.unwrap();
    assert_eq!(all.flushed, Flushed { entries: 3, left: 0 });
    assert_eq!(flusher.queue().acks.load(Ordering::Relaxed), 2, "a batch of two and one of one");
    assert_eq!(step(&flusher).await.flushed, Flushed::default());
    assert_eq!((ledger.count(), ledger.sum()), (3, Usd::from_picos(15)));
    assert_eq!(flusher.queue().queue.hot(&team()).amount, Usd::ZERO);
}

/// A flusher with so many entries.
fn backlog(queue: ModelQueue, ledger: &ModelLedger, entries: u32) -> Flusher<ModelQueue, ModelLedger> {
    for id in 0..entries {
        queue.queue.enqueue_now(&event(&format!("r{id}"), 5)).unwrap();
    }
    Flusher::new(queue, ledger.clone())
}

#[tokio::test]
async fn a_step_takes_at_most_six_windows_of_four_batches_of_which_each_begins_with_the_last_batch() {
    let flusher = backlog(ModelQueue::default(), &ModelLedger::default(), 44);
    assert_eq!(step(&flusher).await.flushed, Flushed { entries: 38, left: 6 });
    assert_eq!(flusher.queue().peeks.load(Ordering::Relaxed), 6);
}

/// One step of which a commit waits for another call to the queue: one after the other, each would wait for ever.
async fn step_with_a_meeting(queue: ModelQueue, settled: usize, meets: Arc<Barrier>, entries: u32) {
    let ledger = ModelLedger::default();
    ledger.0.lock().unwrap().meets = Some((settled, meets));
    let flusher = backlog(queue, &ledger, entries);
    let step = tokio::time::timeout(Duration::from_secs(10), step(&flusher)).await.unwrap();
    step.outcome.unwrap();
    let entries = usize::try_from(entries).unwrap();
    assert_eq!((usize::try_from(step.flushed.entries).unwrap(), ledger.count()), (entries, entries));
}

#[tokio::test]
async fn each_batch_of_a_step_is_committed_at_its_own_instant() {
    let ledger = ModelLedger::default();
    let flusher = backlog(ModelQueue::default(), &ledger, 8);
    // A minute passes with each look at the clock, and with the third comes midnight.
    let (looks, first): (AtomicUsize, DateTime<Utc>) =
        (AtomicUsize::new(0), "2026-03-01T23:58:00Z".parse().unwrap());
    let clock = || first + TimeDelta::minutes(looks.fetch_add(1, Ordering::Relaxed).try_into().unwrap());
    flusher.step(shard(), limit(2), clock, || true).await.outcome.unwrap();
    let days: Vec<String> =
        ledger.0.lock().unwrap().instants.iter().map(|at| at.format("%dT%H:%M").to_string()).collect();
    assert_eq!(days, ["01T23:58", "01T23:59", "02T00:00", "02T00:01"]);
}

#[tokio::test]
async fn a_batch_is_acknowledged_while_the_next_is_committed() {
    let meets = Arc::new(Barrier::new(2));
    let queue = ModelQueue { ack_meets: Some(Arc::clone(&meets)), ..ModelQueue::default() };
    step_with_a_meeting(queue, 2, meets, 3).await;
}

#[tokio::test]
async fn what_stands_behind_a_window_is_peeked_while_its_last_batch_is_committed() {
    let meets = Arc::new(Barrier::new(2));
    let queue = ModelQueue { peek_meets: Some(Arc::clone(&meets)), ..ModelQueue::default() };
    step_with_a_meeting(queue, 6, meets, 12).await;
}

#[tokio::test]
async fn nothing_is_taken_from_behind_a_batch_that_is_no_longer_the_head() {
    let ledger = ModelLedger::default();
    let flusher = backlog(ModelQueue::default(), &ledger, 12);
    let (asked, queue) = (AtomicUsize::new(0), &flusher.queue().queue);
    // The fourth time it is asked whether to look behind the fourth batch: its last entry is another by now.
    let replaced = || {
        if asked.fetch_add(1, Ordering::Relaxed) == 3 {
            queue.tamper(shard(), |list| list[3] = b"garbage".to_vec());
        }
        true
    };
    let step = flusher.step(shard(), limit(2), now, replaced).await;
    step.outcome.unwrap();
    assert_eq!((step.flushed, ledger.count()), (Flushed { entries: 6, left: 6 }, 8));
    assert_eq!(flusher.queue().peeks.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_step_that_is_told_to_stop_acknowledges_what_is_committed_and_leaves_the_rest() {
    let (flusher, ledger) = setup();
    let stopped = flusher.step(shard(), limit(1), now, || false).await;
    stopped.outcome.unwrap();
    assert_eq!(stopped.flushed, Flushed { entries: 1, left: 2 });
    assert_eq!((ledger.count(), flusher.queue().queue.raw(shard()).len()), (1, 2));
}

#[tokio::test]
async fn a_failed_commit_leaves_its_entries_at_the_head_and_the_next_step_settles_each_once() {
    for fault in [Fault::Before, Fault::After] {
        let (flusher, ledger) = setup();
        ledger.fail_once(fault);
        let error = step(&flusher).await.outcome.unwrap_err();
        assert!(matches!(error, FlushError::Commit(Told)) && error.is_transient::<ModelLedger>());
        assert_eq!(flusher.queue().queue.raw(shard()).len(), 3);
        assert_eq!(flusher.queue().queue.hot(&team()).amount, Usd::from_picos(15));
        drain(&flusher).await;
        assert_eq!((ledger.count(), ledger.sum()), (3, Usd::from_picos(15)));
    }
}

#[tokio::test]
async fn a_commit_that_fails_later_in_a_step_keeps_nothing_from_being_acknowledged_before_it() {
    for fault in [Fault::Before, Fault::After] {
        let (flusher, ledger) = setup();
        let fail_next = || {
            ledger.fail_once(fault);
            true
        };
        let failed = flusher.step(shard(), limit(2), now, fail_next).await;
        assert!(matches!(failed.outcome.unwrap_err(), FlushError::Commit(Told)));
        assert_eq!(failed.flushed, Flushed { entries: 2, left: 1 });
        drain(&flusher).await;
        assert_eq!((ledger.count(), ledger.sum()), (3, Usd::from_picos(15)));
    }
}

#[tokio::test]
async fn a_lost_acknowledgement_changes_no_sum_and_is_the_last_of_its_step() {
    for fault in [Fault::Before, Fault::After] {
        let (flusher, ledger) = setup();
        *flusher.queue().fault.lock().unwrap() = Some(fault);
        let lost = step(&flusher).await;
        let error = lost.outcome.unwrap_err();
        assert!(matches!(error, FlushError::Ack(_)), "{error}");
        assert_eq!((lost.flushed.entries, ledger.count()), (0, 3));
        assert_eq!(flusher.queue().acks.load(Ordering::Relaxed), 1);
        drain(&flusher).await;
        assert_eq!((ledger.count(), ledger.sum()), (3, Usd::from_picos(15)));
        assert_eq!(flusher.queue().queue.hot(&team()).amount, Usd::ZERO);
    }
}

#[tokio::test]
async fn a_head_that_changed_is_the_last_that_a_step_acknowledges() {
    let (flusher, ledger) = setup();
    let queue = &flusher.queue().queue;
    let asked = AtomicUsize::new(0);
    let taken_by_another = || {
        if asked.fetch_add(1, Ordering::Relaxed) == 0 {
            let _ = queue.ack_now(&queue.peek_now(shard(), limit(1)).receipt().unwrap());
        }
        true
    };
    let changed = flusher.step(shard(), limit(2), now, taken_by_another).await;
    changed.outcome.unwrap();
    assert_eq!((changed.flushed.entries, ledger.count()), (0, 3));
    assert_eq!((flusher.queue().acks.load(Ordering::Relaxed), queue.raw(shard()).len()), (1, 2));
    drain(&flusher).await;
    assert_eq!((ledger.count(), ledger.sum()), (3, Usd::from_picos(15)));
}

#[tokio::test]
async fn a_corrupt_head_is_reported_and_nothing_is_committed() {
    let (flusher, ledger) = setup();
    flusher.queue().queue.tamper(shard(), |list| list[0] = b"garbage".to_vec());
    let error = step(&flusher).await.outcome.unwrap_err();
    assert!(matches!(error, FlushError::CorruptHead { .. }) && !error.is_transient::<ModelLedger>());
    assert_eq!(ledger.count(), 0);
    assert_eq!(flusher.queue().queue.raw(shard()).len(), 3);
}
