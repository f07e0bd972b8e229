//! The queue's operations as the model does them, or as a planted bug does.

use std::collections::BTreeMap;

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use spend_queue::{
    Acked, BatchLimit, EncodedEvent, Enqueued, MemoryQueueError, Peeked, PrefixDigest, Receipt, Reindexed,
    ScopeRef, Shard, Stop, Usd,
};

use super::Server;
use crate::Bug;
use crate::request::CallError;

/// A memory of request ids beside that of the queue, with the first 4 bytes of each payload's digest.
pub(super) type Marks = BTreeMap<String, [u8; 4]>;

/// How often a server dies between two writes that should be one.
const DEATH: f64 = 0.05;

impl Server {
    pub(super) fn enqueue_with_bug(
        &mut self,
        shard: Shard,
        event: &EncodedEvent,
        rng: &mut ChaCha8Rng,
    ) -> Result<Enqueued, CallError> {
        let check = event.payload_check().short();
        if matches!(self.bug, Some(Bug::MarkFirst | Bug::MarksElsewhere)) {
            let marks = self.marks.entry(shard).or_default();
            if let Some(known) = marks.get(event.request_id()) {
                return Ok(if *known == check { Enqueued::Duplicate } else { Enqueued::Conflict });
            }
            marks.insert(event.request_id().to_owned(), check);
            if self.bug == Some(Bug::MarkFirst) && rng.random_bool(DEATH) {
                return Err(CallError::NoAnswer);
            }
        }
        if self.bug == Some(Bug::NoDuplicateCheck) {
            self.queue.forget(shard, &event.digest());
        }
        Ok(self.queue.enqueue_now(event)?)
    }

    pub(super) fn peek_with_bug(&self, shard: Shard, limit: BatchLimit) -> Peeked {
        let mut peeked = self.queue.peek_now(shard, limit);
        match self.bug {
            Some(Bug::SkipsCorrupt) => {
                while let (true, Some(Stop::Corrupt { .. })) = (peeked.entries.is_empty(), &peeked.stop) {
                    self.queue.tamper(shard, |list| drop(list.pop_front()));
                    peeked = self.queue.peek_now(shard, limit);
                }
            }
            Some(Bug::DestructivePeek) => {
                self.queue.tamper(shard, |list| drop(list.drain(..peeked.entries.len())));
            }
            _ => {}
        }
        peeked
    }

    /// Whether the first and the last entry of a batch are in their places, whatever stands between.
    fn ends_agree(&self, receipt: &Receipt) -> bool {
        let list = self.queue.raw(receipt.shard);
        let last = usize::try_from(receipt.entries).unwrap_or(usize::MAX).saturating_sub(1);
        self.ends
            .get(&receipt.digest)
            .is_some_and(|ends| list.first() == Some(&ends[0]) && list.get(last) == Some(&ends[1]))
    }

    pub(super) fn ack_with_bug(&self, receipt: &Receipt) -> Acked {
        let list = self.queue.raw(receipt.shard);
        let count = usize::try_from(receipt.entries).unwrap_or(usize::MAX);
        let whole = list.get(..count).is_some_and(|prefix| PrefixDigest::of(prefix) == receipt.digest);
        let head = self.ends.get(&receipt.digest).map(|ends| &ends[0]);
        let mut wrong = receipt.clone();
        // Takes so many entries off, whatever they are.
        let mut take = |count: usize| {
            let prefix = list.get(..count).filter(|prefix| !prefix.is_empty());
            if let (Ok(entries), Some(prefix)) = (u32::try_from(count), prefix) {
                (wrong.entries, wrong.digest) = (entries, PrefixDigest::of(prefix));
            }
        };
        match self.bug {
            Some(Bug::HeadOnlyAck) if head.is_some() && list.first() == head => take(count.min(list.len())),
            Some(Bug::EndsOnlyAck) if self.ends_agree(receipt) => take(count),
            Some(Bug::AckOneMore) if whole => take(count + 1),
            Some(Bug::AckOneLess) if whole => take(count - 1),
            Some(Bug::CountersKept) => {
                wrong.charges.clear();
                wrong.starts.clear();
            }
            Some(Bug::CountersTwice) => {
                for charge in wrong.charges.values_mut() {
                    charge.amount = charge.amount.checked_mul(2).unwrap_or(charge.amount);
                    charge.paid_events *= 2;
                }
            }
            _ => {}
        }
        self.queue.ack_now(&wrong)
    }

    pub(super) fn reindex_with_bug(&mut self, shard: Shard) -> Result<Reindexed, CallError> {
        let outcome = self.queue.reindex_now(shard)?;
        if self.bug == Some(Bug::ReindexIgnoresForeign) && matches!(outcome, Reindexed::Blocked { .. }) {
            self.trusted.insert(shard);
        }
        Ok(outcome)
    }

    pub(super) fn pending_with_bug(&self, scope: &ScopeRef) -> Result<Usd, MemoryQueueError> {
        let trusted = |shard| self.trusted.contains(shard);
        if self.oracle.views().any(|(shard, _)| trusted(shard)) {
            let items = self.oracle.views().flat_map(|(_, view)| &view.items);
            return Ok(Usd::from_picos(items.map(|item| item.charge(scope, None)).sum()));
        }
        self.queue.pending_now(scope)
    }

    pub(super) fn quarantine_with_bug(&self, shard: Shard, head: &[u8]) -> bool {
        match (self.bug, self.queue.raw(shard).first()) {
            (Some(Bug::QuarantineUnchecked), Some(first)) => self.queue.quarantine_now(shard, first),
            _ => self.queue.quarantine_now(shard, head),
        }
    }
}
