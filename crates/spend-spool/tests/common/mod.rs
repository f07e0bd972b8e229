//! A queue that fails on demand, and events to fill it with.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use chrono::{DateTime, Utc};
use spend_queue::{
    Acked, BatchLimit, EncodedEvent, Enqueued, Entry, Epoch, MemoryQueue, Peeked, QueueError, Receipt,
    Reindexed, ScopeRef, Shard, ShardCount, SpendEvent, SpendQueue,
};

/// What the queue does with the next calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Up,
    /// Refuses before any effect.
    Down,
    /// Takes the event and reports a failure.
    LostReply,
    /// Refuses for good, as a server does that is set up wrongly.
    Broken,
    /// Down every third call, a lost reply every fifth.
    Flapping,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlakyError {
    Down,
    LostReply,
    Broken,
    RefusesId,
    /// Transient, and of one event alone.
    ScopeFull,
}

impl fmt::Display for FlakyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl core::error::Error for FlakyError {}

impl QueueError for FlakyError {
    fn is_transient(&self) -> bool {
        matches!(self, Self::Down | Self::LostReply | Self::ScopeFull)
    }

    fn is_of_one_event(&self) -> bool {
        matches!(self, Self::ScopeFull)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct FlakyQueue(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    memory: MemoryQueue,
    mode: Mutex<Mode>,
    refused_ids: Mutex<BTreeSet<String>>,
    asked: AtomicU64,
}

impl FlakyQueue {
    pub(crate) fn new(mode: Mode) -> Self {
        Self(Arc::new(Inner {
            memory: MemoryQueue::new(ShardCount::ONE),
            mode: Mutex::new(mode),
            refused_ids: Mutex::default(),
            asked: AtomicU64::new(0),
        }))
    }

    pub(crate) fn set(&self, mode: Mode) {
        *self.0.mode.lock().unwrap() = mode;
    }

    pub(crate) fn refuse(&self, id: &str) {
        self.0.refused_ids.lock().unwrap().insert(id.into());
    }

    pub(crate) fn forgive(&self) {
        self.0.refused_ids.lock().unwrap().clear();
    }

    /// How often it was asked to enqueue.
    pub(crate) fn asked(&self) -> u64 {
        self.0.asked.load(Ordering::SeqCst)
    }

    /// Request ids in their order.
    pub(crate) fn ids(&self) -> Vec<String> {
        self.entries().into_iter().map(|entry| entry.event.request_id).collect()
    }

    /// The payload of each id, as its model; panics when one is there twice.
    pub(crate) fn payloads(&self) -> BTreeMap<String, String> {
        let mut payloads = BTreeMap::new();
        for entry in self.entries() {
            let before = payloads.insert(entry.event.request_id.clone(), entry.event.model);
            assert_eq!(before, None, "{} is queued twice", entry.event.request_id);
        }
        payloads
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        let shard = ShardCount::ONE.shard_of("any");
        self.0.memory.raw(shard).into_iter().map(|raw| Entry::decode(raw).unwrap()).collect()
    }
}

impl SpendQueue for FlakyQueue {
    type Error = FlakyError;

    fn shards(&self) -> ShardCount {
        self.0.memory.shards()
    }

    fn epoch(&self) -> Epoch {
        self.0.memory.epoch()
    }

    async fn reindex(&self, shard: Shard) -> Result<Reindexed, FlakyError> {
        Ok(self.0.memory.reindex_now(shard).unwrap())
    }

    async fn enqueue(&self, event: &EncodedEvent) -> Result<Enqueued, FlakyError> {
        let call = self.0.asked.fetch_add(1, Ordering::SeqCst);
        // A real queue takes its time too, so that calls overlap.
        tokio::task::yield_now().await;
        if self.0.refused_ids.lock().unwrap().contains(event.request_id()) {
            let full = event.request_id().starts_with("full");
            return Err(if full { FlakyError::ScopeFull } else { FlakyError::RefusesId });
        }
        let mode = match *self.0.mode.lock().unwrap() {
            Mode::Flapping if call.is_multiple_of(3) => Mode::Down,
            Mode::Flapping if call.is_multiple_of(5) => Mode::LostReply,
            Mode::Flapping => Mode::Up,
            mode => mode,
        };
        match mode {
            Mode::Down => Err(FlakyError::Down),
            Mode::Broken => Err(FlakyError::Broken),
            Mode::LostReply => {
                self.0.memory.enqueue_now(event).unwrap();
                Err(FlakyError::LostReply)
            }
            _ => Ok(self.0.memory.enqueue_now(event).unwrap()),
        }
    }

    async fn peek(&self, shard: Shard, limit: BatchLimit) -> Result<Peeked, FlakyError> {
        Ok(self.0.memory.peek_now(shard, limit))
    }

    async fn ack(&self, receipt: &Receipt) -> Result<Acked, FlakyError> {
        Ok(self.0.memory.ack_now(receipt))
    }

    async fn depth(&self, shard: Shard) -> Result<u64, FlakyError> {
        Ok(self.0.memory.raw(shard).len() as u64)
    }
}

pub(crate) fn now() -> DateTime<Utc> {
    "2026-03-01T12:00:00.123456789Z".parse().unwrap()
}

/// An event; `payload` becomes its model.
pub(crate) fn event(id: &str, payload: &str) -> EncodedEvent {
    let mut event = SpendEvent::new(id, payload, vec![ScopeRef::new("team", "blue").unwrap()]);
    event.cost = Some("0.0000027".parse().unwrap());
    event.metadata.insert("trace".into(), serde_json::json!({ "weight": 0.1, "tags": ["a", "b"] }));
    event.encode(now()).unwrap()
}
