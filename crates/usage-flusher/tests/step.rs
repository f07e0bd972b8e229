//! The order of a step, with models that fail where a test tells them to.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod support;

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex};

use iam_ledger::Committed;
use spend_queue::{
    Acked, BatchLimit, EncodedEvent, Enqueued, MemoryQueue, MemoryQueueError, Peeked, Receipt, Reindexed,
    Shard, ShardCount, SpendQueue, Usd,
};
use support::{event, now, shard, team};
use usage_flusher::{FlushError, Flusher, Settlement, SpendLedger};

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

    fn commit(&self, batch: Settlement) -> impl Future<Output = Result<Committed, Told>> + Send {
        let Model { settled, fault } = &mut *self.0.lock().unwrap();
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
        std::future::ready(if fault.is_some() { Err(Told) } else { Ok(committed) })
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
}

impl SpendQueue for ModelQueue {
    type Error = MemoryQueueError;

    fn shards(&self) -> ShardCount {
        self.queue.shards()
    }

    fn enqueue(&self, event: &EncodedEvent) -> impl Future<Output = Result<Enqueued, Self::Error>> + Send {
        self.queue.enqueue(event)
    }

    fn peek(
        &self,
        shard: Shard,
        limit: BatchLimit,
    ) -> impl Future<Output = Result<Peeked, Self::Error>> + Send {
        self.queue.peek(shard, limit)
    }

    async fn ack(&self, receipt: &Receipt) -> Result<Acked, Self::Error> {
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

fn limit() -> BatchLimit {
    BatchLimit::new(2).unwrap()
}

#[tokio::test]
async fn a_queue_is_carried_over_in_batches_and_each_event_once() {
    let (flusher, ledger) = setup();
    let first = flusher.step(shard(), limit(), now()).await.unwrap();
    assert_eq!((first.entries, first.left), (2, 1));
    let second = flusher.step(shard(), limit(), now()).await.unwrap();
    assert_eq!((second.entries, second.left), (1, 0));
    assert_eq!(flusher.step(shard(), limit(), now()).await.unwrap().entries, 0);
    assert_eq!((ledger.count(), ledger.sum()), (3, Usd::from_picos(15)));
    assert_eq!(flusher.queue().queue.hot(&team()).amount, Usd::ZERO);
}

#[tokio::test]
async fn a_failed_commit_leaves_its_entries_at_the_head_and_the_next_step_settles_each_once() {
    for fault in [Fault::Before, Fault::After] {
        let (flusher, ledger) = setup();
        ledger.fail_once(fault);
        let error = flusher.step(shard(), limit(), now()).await.unwrap_err();
        assert!(matches!(error, FlushError::Commit(Told)) && error.is_transient::<ModelLedger>());
        assert_eq!(flusher.queue().queue.raw(shard()).len(), 3);
        assert_eq!(flusher.queue().queue.hot(&team()).amount, Usd::from_picos(15));
        while flusher.step(shard(), limit(), now()).await.unwrap().entries > 0 {}
        assert_eq!((ledger.count(), ledger.sum()), (3, Usd::from_picos(15)));
    }
}

#[tokio::test]
async fn a_lost_acknowledgement_changes_no_sum() {
    for fault in [Fault::Before, Fault::After] {
        let (flusher, ledger) = setup();
        *flusher.queue().fault.lock().unwrap() = Some(fault);
        let error = flusher.step(shard(), limit(), now()).await.unwrap_err();
        assert!(matches!(error, FlushError::Ack(_)), "{error}");
        assert_eq!(ledger.count(), 2);
        while flusher.step(shard(), limit(), now()).await.unwrap().entries > 0 {}
        assert_eq!((ledger.count(), ledger.sum()), (3, Usd::from_picos(15)));
        assert_eq!(flusher.queue().queue.hot(&team()).amount, Usd::ZERO);
    }
}

#[tokio::test]
async fn a_corrupt_head_is_reported_and_nothing_is_committed() {
    let (flusher, ledger) = setup();
    flusher.queue().queue.tamper(shard(), |list| list[0] = b"garbage".to_vec());
    let error = flusher.step(shard(), limit(), now()).await.unwrap_err();
    assert!(matches!(error, FlushError::CorruptHead { .. }) && !error.is_transient::<ModelLedger>());
    assert_eq!(ledger.count(), 0);
    assert_eq!(flusher.queue().queue.raw(shard()).len(), 3);
}
