//! Where everything stands between two steps.

use std::collections::{BTreeMap, BTreeSet};

use spend_queue::{Chain, MemorySnapshot};

/// Raw entries of one batch.
pub type Batch = Vec<Vec<u8>>;

/// What the gateway knows of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Producer {
    /// It was not sent.
    Unsent,
    /// It was sent and the answer was lost: it will be sent again.
    Unknown,
    /// The queue said that it has it: nobody sends it again.
    Answered,
}

/// What a flusher holds in its memory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Flusher {
    /// Nothing, as after a start.
    Idle,
    /// A batch that it has not committed.
    Peeked(Batch),
    /// A batch whose commit was answered.
    Committed(Batch),
}

/// A request whose sender has given up or died, and which may still arrive.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Late {
    /// A transaction.
    Commit(Batch),
    /// An acknowledgement.
    Ack(Batch),
}

/// The whole system, and what the properties must remember of the past.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    /// The queue's shard, as `spend-queue` has it.
    pub queue: MemorySnapshot,
    /// What a replica holds, if there is one that has not heard of anything later.
    pub replica: Option<MemorySnapshot>,
    /// Whether the fail-over has happened.
    pub failed_over: bool,
    /// Whether another hand has written.
    pub foreign: bool,
    /// Each event as the gateway sees it.
    pub producers: Vec<Producer>,
    /// Each flusher's memory.
    pub flushers: Vec<Flusher>,
    /// A request on its way.
    pub late: Option<Late>,
    /// How often each request id was charged.
    pub charged: BTreeMap<String, u8>,
    /// The sequence number and link of the last entry that was committed (`flush_log`).
    pub logged: Option<(u64, Chain)>,
    /// Events that the fail-over took from the queue and that were not charged by then.
    pub lost: BTreeSet<String>,
    /// An entry was taken off that was not committed.
    pub trimmed_uncommitted: bool,
    /// An acknowledgement did something else than take exactly its prefix, or nothing.
    pub inexact_ack: bool,
    /// A charge came under a number that was committed already, and the chain did not show it.
    pub unseen_rewind: bool,
}
