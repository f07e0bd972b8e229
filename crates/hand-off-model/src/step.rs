//! What can happen next.

use spend_queue::{
    Acked, BatchLimit, EncodedEvent, Entry, MemoryQueue, PrefixDigest, Receipt, Shard, ShardCount, Stop,
};

use crate::Bug;
use crate::state::{Batch, Flusher, Late, Producer, State};

/// One atomic step, of whoever's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// An event is queued and the gateway hears of it.
    Enqueue(usize),
    /// An event is queued and the answer is lost.
    EnqueueUnheard(usize),
    /// A flusher looks at the head.
    Peek(usize),
    /// A flusher's transaction commits, and it hears of it.
    Commit(usize),
    /// A flusher gives its transaction up, which may still commit.
    CommitLate(usize),
    /// A flusher's acknowledgement arrives. That its answer is lost makes no difference to it.
    Ack(usize),
    /// A flusher gives its acknowledgement up, which may still arrive.
    AckLate(usize),
    /// A flusher dies, or hears of an error, and forgets its batch.
    Crash(usize),
    /// The request on its way arrives.
    Deliver,
    /// The replica hears of everything up to here and of nothing more.
    Replicate,
    /// The replica takes over.
    FailOver,
    /// Another hand writes into the list.
    Foreign(Foreign),
    /// An operator takes an unreadable head off.
    Quarantine,
}

/// What another hand writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Foreign {
    /// What is no entry, at the tail.
    GarbageAtTail,
    /// What is no entry, before the head.
    GarbageAtHead,
    /// The head once more, at the tail.
    HeadAtTail,
    /// The tail once more, before the head.
    TailAtHead,
}

/// The only shard.
pub(crate) fn shard() -> Shard {
    ShardCount::ONE.shard_of("")
}

/// A queue whose only shard is this one.
fn opened(state: &State) -> MemoryQueue {
    let queue = MemoryQueue::new(ShardCount::ONE);
    queue.rewind(state.queue.clone());
    queue
}

fn ids(raw: &[Vec<u8>]) -> impl Iterator<Item = String> + '_ {
    raw.iter().filter_map(|raw| Entry::decode(raw.clone()).ok()).map(|entry| entry.event.request_id)
}

impl State {
    /// The raw list, oldest first.
    #[must_use]
    pub fn list(&self) -> Batch {
        opened(self).raw(shard())
    }

    /// Whether an event is in the list.
    #[must_use]
    pub fn holds(&self, id: &str) -> bool {
        ids(&self.list()).any(|held| held == id)
    }

    pub(crate) fn enqueue(
        &mut self,
        nth: usize,
        event: &EncodedEvent,
        heard: bool,
        bug: Option<Bug>,
    ) -> Option<()> {
        let queue = opened(self);
        let before = queue.raw(shard()).len();
        queue.enqueue_now(event).ok()?;
        if bug == Some(Bug::MarkBeforeEvent) && !heard && queue.raw(shard()).len() > before {
            queue.tamper(shard(), |list| drop(list.pop_back()));
        }
        self.queue = queue.snapshot(shard());
        self.producers[nth] = if heard { Producer::Answered } else { Producer::Unknown };
        Some(())
    }

    pub(crate) fn peek(&mut self, flusher: usize, limit: BatchLimit) -> Option<()> {
        let peeked = opened(self).peek_now(shard(), limit);
        let batch: Batch = peeked.entries.iter().map(|entry| entry.raw().to_vec()).collect();
        self.flushers[flusher] = (!batch.is_empty()).then_some(Flusher::Peeked(batch))?;
        Some(())
    }

    pub(crate) fn commit(&mut self, batch: &Batch, bug: Option<Bug>) {
        for raw in batch {
            let Ok(entry) = Entry::decode(raw.clone()) else { continue };
            let id = entry.event.request_id.clone();
            let new = !self.charged.contains_key(&id);
            if new || bug == Some(Bug::NoGuard) {
                let times = self.charged.entry(id).or_default();
                *times = times.saturating_add(1);
            }
            let Some(link) = entry.link else { continue };
            // What the audit asks of the log. A new charge under an old number means that the queue was taken back.
            let seen = self.logged.is_none_or(|(seq, chain)| !entry.continues(seq, chain));
            let behind = self.logged.is_some_and(|(seq, _)| link.seq <= seq);
            self.unseen_rewind |= new && behind && !seen;
            self.logged = Some((link.seq, link.chain));
        }
    }

    pub(crate) fn acknowledge(&mut self, batch: &Batch, bug: Option<Bug>) {
        let queue = opened(self);
        let before = queue.raw(shard());
        let named = |raw: &[Vec<u8>]| {
            let entries: Vec<Entry> = raw.iter().filter_map(|raw| Entry::decode(raw.clone()).ok()).collect();
            Receipt::of(shard(), &entries)
        };
        let Some(mut receipt) = named(batch) else { return };
        if bug == Some(Bug::HeadOnlyAck) && before.first() == batch.first() {
            let taken = &before[..batch.len().min(before.len())];
            receipt.entries = u32::try_from(taken.len()).unwrap_or_default();
            receipt.digest = PrefixDigest::of(taken);
        }
        let outcome = queue.ack_now(&receipt);
        let after = queue.raw(shard());
        let exact = match outcome {
            Acked::Done { .. } => before.starts_with(batch) && before.get(batch.len()..) == Some(&after[..]),
            Acked::Changed => before == after,
        };
        self.inexact_ack |= !exact;
        let gone = before.len().saturating_sub(after.len());
        self.trimmed_uncommitted |= ids(&before[..gone]).any(|id| !self.charged.contains_key(&id));
        self.queue = queue.snapshot(shard());
    }

    pub(crate) fn give_up(&mut self, request: Late) -> Option<()> {
        if self.late.is_some() {
            return None;
        }
        self.late = Some(request);
        Some(())
    }

    pub(crate) fn fail_over(&mut self) -> Option<()> {
        let before = self.list();
        self.queue = self.replica.take()?;
        self.failed_over = true;
        let gone: Vec<_> =
            ids(&before).filter(|id| !self.charged.contains_key(id) && !self.holds(id)).collect();
        self.lost.extend(gone);
        Some(())
    }

    pub(crate) fn interfere(&mut self, what: Foreign) -> Option<()> {
        let queue = opened(self);
        let list = queue.raw(shard());
        let garbage = b"garbage".to_vec();
        let (raw, at_head) = match what {
            Foreign::GarbageAtTail => (garbage, false),
            Foreign::GarbageAtHead => (garbage, true),
            Foreign::HeadAtTail => (list.first()?.clone(), false),
            Foreign::TailAtHead => (list.last()?.clone(), true),
        };
        queue.tamper(shard(), |list| if at_head { list.push_front(raw) } else { list.push_back(raw) });
        self.queue = queue.snapshot(shard());
        self.foreign = true;
        Some(())
    }

    pub(crate) fn quarantine(&mut self) -> Option<()> {
        let queue = opened(self);
        let Some(Stop::Corrupt { position: 0, raw, .. }) = queue.peek_now(shard(), BatchLimit::MIN).stop
        else {
            return None;
        };
        queue.quarantine_now(shard(), &raw);
        self.queue = queue.snapshot(shard());
        Some(())
    }
}
