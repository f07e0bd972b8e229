//! The product's traits, over the simulated network. What the real flusher talks to.

use iam_ledger::Committed;
use spend_queue::{
    Acked, BatchLimit, EncodedEvent, Enqueued, Epoch, Peeked, Receipt, Reindexed, Shard, ShardCount,
    SpendQueue, Stop,
};
use usage_flusher::{Settlement, SpendLedger};

use crate::Bug;
use crate::host::Host;
use crate::request::{CallError, Reply, Request};
use crate::tally::Situation;

/// A queue as one task sees it.
#[derive(Debug, Clone)]
pub(crate) struct SimQueue(pub(crate) Host);

/// A ledger as one task sees it.
#[derive(Debug, Clone)]
pub(crate) struct SimLedger(pub(crate) Host);

/// The answer of the kind that was asked for. Another kind cannot come, and would be none.
macro_rules! expect {
    ($answer:expr, $kind:path) => {
        match $answer.await? {
            $kind(answer) => Ok(answer),
            _ => Err(CallError::NoAnswer),
        }
    };
}

/// What acknowledges a batch that is committed.
fn receipt_of(settlement: &Settlement) -> Option<Receipt> {
    Receipt::of(settlement.shard, &settlement.entries)
}

impl SimQueue {
    /// The operator's quarantine, which is no part of the trait.
    pub(crate) async fn quarantine(&self, shard: Shard, head: Vec<u8>) -> Result<bool, CallError> {
        expect!(self.0.call(Request::Quarantine(shard, head)), Reply::Quarantined)
    }

    /// What the planted bugs of a flusher make of a peek.
    fn misread(&self, peeked: &mut Peeked) {
        self.0.with(|world| match world.server.bug {
            Some(Bug::WaitsBehindCorrupt) => {
                if matches!(peeked.stop, Some(Stop::Corrupt { .. })) {
                    peeked.entries.clear();
                }
            }
            Some(Bug::SpansBreak) => {
                if let Some(Stop::ChainBreak { position }) = peeked.stop {
                    let behind = world.server.oracle.view(peeked.shard).items.get(position).cloned();
                    peeked.entries.extend(behind.and_then(|item| item.entry.clone()));
                }
            }
            _ => {}
        });
    }
}

impl SpendQueue for SimQueue {
    type Error = CallError;

    fn shards(&self) -> ShardCount {
        self.0.with(|world| world.plan.shards)
    }

    fn epoch(&self) -> Epoch {
        Epoch::new("simulated", self.shards())
    }

    async fn enqueue(&self, event: &EncodedEvent) -> Result<Enqueued, CallError> {
        expect!(self.0.call(Request::Enqueue(event.clone())), Reply::Enqueued)
    }

    async fn peek(&self, shard: Shard, limit: BatchLimit) -> Result<Peeked, CallError> {
        let mut peeked = *expect!(self.0.call(Request::Peek(shard, limit)), Reply::Peeked)?;
        self.misread(&mut peeked);
        Ok(peeked)
    }

    async fn ack(&self, receipt: &Receipt) -> Result<Acked, CallError> {
        let acked = expect!(self.0.call(Request::Ack(receipt.clone())), Reply::Acked)?;
        let (next, bug) = self.0.with(|world| {
            let next = world.committing.get(&self.0.task).and_then(receipt_of);
            if next.is_some() && acked != Acked::Changed {
                world.tally.situation(Situation::Overlapped);
            }
            (next, world.server.bug)
        });
        if let (Some(next), Some(Bug::AckOvertakesCommit)) = (next, bug) {
            // Whatever it answers: this flusher is careless.
            let _ = self.0.call(Request::Ack(next)).await;
        }
        Ok(acked)
    }

    async fn reindex(&self, shard: Shard) -> Result<Reindexed, CallError> {
        expect!(self.0.call(Request::Reindex(shard)), Reply::Reindexed)
    }

    async fn depth(&self, shard: Shard) -> Result<u64, CallError> {
        expect!(self.0.call(Request::Depth(shard)), Reply::Depth)
    }
}

impl SpendLedger for SimLedger {
    type Error = CallError;

    async fn commit(&self, settlement: Settlement) -> Result<Committed, CallError> {
        let bug = self.0.with(|world| world.server.bug);
        if let (Some(receipt), Some(Bug::AckBeforeCommit)) = (receipt_of(&settlement), bug) {
            // Whatever it answers: this flusher is careless.
            let _ = self.0.call(Request::Ack(receipt)).await;
        }
        self.0.with(|world| world.committing.insert(self.0.task, settlement.clone()));
        let answer = self.0.call(Request::Commit { settlement, known: None }).await;
        self.0.with(|world| world.committing.remove(&self.0.task));
        match answer {
            Ok(Reply::Committed(committed)) => Ok(committed),
            Ok(_) => Err(CallError::NoAnswer),
            Err(CallError::NoAnswer) if bug == Some(Bug::AckUnknownCommit) => Ok(Committed::default()),
            Err(error) => Err(error),
        }
    }

    fn is_transient(_: &CallError) -> bool {
        true
    }
}
