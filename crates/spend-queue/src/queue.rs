//! The contract of a spend queue.

use core::future::Future;

use crate::{BatchLimit, EncodedEvent, Epoch, Peeked, Receipt, Shard, ShardCount};

/// A durable, ordered hand-off of finished calls to a ledger.
///
/// # What every implementation owes
///
/// 1. **Enqueue is atomic and idempotent.** An event, the memory of its request id and its scopes' counters
///    move together or not at all. The first payload under a request id wins for ever; the same payload again
///    is [`Enqueued::Duplicate`], another payload [`Enqueued::Conflict`], and both change nothing. An error
///    that says the outcome is unknown (a lost reply) is answered by calling again.
/// 2. **Order and proof.** Entries of a shard are numbered without gaps and linked by [`crate::Chain`].
/// 3. **Peek takes nothing.** It may be called at any time, by anyone, and returns what an acknowledgement
///    can name. It never skips: what cannot be read stops it ([`crate::Stop`]).
/// 4. **Acknowledge takes exactly what the receipt names**, and only while the head of the shard still *is*
///    that prefix, every entry of it compared ([`crate::PrefixDigest`]). Anything else is [`Acked::Changed`] and
///    changes nothing. The counters lose exactly what enqueueing those entries added. It works when memory is full.
/// 5. **Evidence stays.** Numbers that left a shard without an acknowledgement are recorded before anything that shows
///    it is set back: an empty list is no proof that everything was taken by its flusher.
///
/// # What the caller owes
///
/// Acknowledge only what is committed elsewhere, and commit idempotently by request id: between commit and
/// acknowledgement the process may die, and the same entries come again.
///
/// No method here is destructive without a receipt, and none returns a sum: that is the implementation's business.
pub trait SpendQueue: Send + Sync {
    /// What can go wrong.
    type Error: QueueError;

    /// Over how many shards the queue is spread.
    fn shards(&self) -> ShardCount;

    /// The history that the numbers of its shards belong to.
    fn epoch(&self) -> Epoch;

    /// Appends an event to the shard of its partition.
    ///
    /// # Errors
    ///
    /// When the event may not have been queued. Repeating the call is always safe.
    fn enqueue(&self, event: &EncodedEvent) -> impl Future<Output = Result<Enqueued, Self::Error>> + Send;

    /// Looks at the head of a shard.
    ///
    /// # Errors
    ///
    /// When the shard cannot be read. An unreadable entry is no error but the end of the answer.
    fn peek(
        &self,
        shard: Shard,
        limit: BatchLimit,
    ) -> impl Future<Output = Result<Peeked, Self::Error>> + Send;

    /// Takes a committed batch off its shard.
    ///
    /// # Errors
    ///
    /// When it may not have been taken. Repeating the call is safe: a second success is [`Acked::Changed`].
    fn ack(&self, receipt: &Receipt) -> impl Future<Output = Result<Acked, Self::Error>> + Send;

    /// Every list that is to be drained: all shards, and that of an older deployment where there is one.
    fn sources(&self) -> Vec<Shard> {
        self.shards().iter().collect()
    }

    /// Makes the index of pending spend anew from the entries, in one step, when it is in doubt and no foreign entry is
    /// left in the shard.
    ///
    /// # Errors
    ///
    /// When the shard cannot be read or written. Repeating the call is always safe.
    fn reindex(&self, shard: Shard) -> impl Future<Output = Result<Reindexed, Self::Error>> + Send;

    /// How many entries a shard holds.
    ///
    /// # Errors
    ///
    /// When the shard cannot be read.
    fn depth(&self, shard: Shard) -> impl Future<Output = Result<u64, Self::Error>> + Send;
}

/// An error of a queue that knows whether trying again later can help.
pub trait QueueError: core::error::Error + Send + Sync + 'static {
    /// Whether the same call may succeed later without anybody mending anything.
    fn is_transient(&self) -> bool;

    /// Whether the queue works, and refuses this event for a reason of its own, such as a counter of its scopes that is full: other
    /// events are worth trying.
    fn is_of_one_event(&self) -> bool {
        false
    }
}

/// What became of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enqueued {
    /// It is queued and counted.
    Accepted {
        /// Its number in the shard.
        seq: u64,
        /// How many entries the shard holds now, this one included: a producer can slow down by it.
        depth: u64,
    },
    /// The same payload was queued under this request id before.
    Duplicate,
    /// Another payload was queued under this request id before; that one stays.
    Conflict,
}

/// What became of an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acked {
    /// The batch is off the queue.
    Done {
        /// How many entries the shard still holds.
        depth: u64,
        /// Counters that held less than was to be subtracted. They were removed, and the index is marked as
        /// not to be trusted until the shard is empty or repaired: somebody else wrote to it.
        short_counters: u64,
    },
    /// The head of the shard is not the prefix that the receipt names; nothing changed. Another flusher was
    /// faster, or the queue was rewound.
    Changed,
}

/// What became of an index that was to be made anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reindexed {
    /// It was proven already, or the shard has none; nothing changed.
    Proven,
    /// It was made anew from all entries.
    Rebuilt {
        /// How many.
        entries: u64,
    },
    /// An entry cannot be read, or does not follow from the one before it; nothing changed. Draining what stands before
    /// it, or taking it off, helps.
    Blocked {
        /// Its place in the list, 0 for the head.
        position: u64,
    },
    /// The shard holds more entries than one step goes through; nothing changed. Draining helps.
    TooLong {
        /// How many it holds.
        depth: u64,
        /// How many one step goes through.
        bound: u64,
    },
}
