//! A queue in memory that obeys the contract: the model for tests of the real one.

mod shard;

use core::future::{Future, ready};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, Utc};
use thiserror::Error;

use crate::{
    Acked, BatchLimit, Charge, EncodedEvent, Enqueued, Epoch, Index, Millis, ORGANIZATION, Peeked,
    PendingSpend, QueueError, Receipt, Reindexed, RequestDigest, ScopeRef, Shard, ShardCount, SpendQueue,
    Start, Usd,
};
use shard::ShardModel;

/// A [`SpendQueue`] that lives and dies with the process: for tests and simulations, never for bills.
#[derive(Debug, Default)]
pub struct MemoryQueue {
    count: ShardCount,
    shards: Mutex<HashMap<Shard, ShardModel>>,
}

/// One shard of a [`MemoryQueue`] as it was at an instant: what a replica holds that has not heard of anything later.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MemorySnapshot {
    shard: Shard,
    state: ShardModel,
}

/// Why the model refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MemoryQueueError {
    /// The pending amount of a scope would not fit one counter (`i64` picodollars). Acknowledging helps.
    #[error("pending spend of {0} would exceed 9223372.036854775807 USD")]
    CounterOverflow(ScopeRef),
    /// The index is in doubt and an entry cannot be read, so nobody knows what is pending. An operator must look.
    #[error("pending spend of shard {shard} cannot be read: entry {position} is no entry of this queue")]
    Unreadable {
        /// The shard.
        shard: Shard,
        /// The place of the entry, 0 for the head.
        position: u64,
    },
    /// What is pending is less than what is pending of the past: a counter was changed by another hand, or an entry.
    #[error("pending spend in shard {shard} is less than that of its past starts")]
    Inconsistent {
        /// The shard.
        shard: Shard,
    },
    /// The organization's id breaks the rule for identifiers.
    #[error("{0}")]
    Scope(#[from] crate::ScopeRefError),
}

impl QueueError for MemoryQueueError {
    fn is_transient(&self) -> bool {
        match self {
            Self::CounterOverflow(_) => true,
            Self::Unreadable { .. } | Self::Inconsistent { .. } | Self::Scope(_) => false,
        }
    }
}

impl MemoryQueue {
    /// An empty queue of so many shards.
    #[must_use]
    pub fn new(count: ShardCount) -> Self {
        Self { count, shards: Mutex::default() }
    }

    /// The counters of a scope: money and paid events, whether or not they can be relied on.
    #[must_use]
    pub fn hot(&self, scope: &ScopeRef) -> Charge {
        self.lock().values().map(|state| state.hot(scope)).fold(Charge::default(), |sum, charge| Charge {
            amount: sum.amount.checked_add(charge.amount).unwrap_or(sum.amount),
            paid_events: sum.paid_events + charge.paid_events,
        })
    }

    /// The raw list of a shard, oldest first.
    #[must_use]
    pub fn raw(&self, shard: Shard) -> Vec<Vec<u8>> {
        self.with(shard, |state| state.list.iter().cloned().collect())
    }

    /// Changes the raw list of a shard behind the queue's back, as a foreign writer would.
    pub fn tamper(&self, shard: Shard, change: impl FnOnce(&mut VecDeque<Vec<u8>>)) {
        self.with(shard, |state| change(&mut state.list));
    }

    /// Whether the index of a shard can be relied on.
    #[must_use]
    pub fn index(&self, shard: Shard) -> Index {
        self.with(shard, |state| state.index())
    }

    /// [`SpendQueue::enqueue`], at once.
    ///
    /// # Errors
    ///
    /// When a counter would overflow.
    pub fn enqueue_now(&self, event: &EncodedEvent) -> Result<Enqueued, MemoryQueueError> {
        self.with(self.count.shard_of(event.partition()), |state| state.enqueue(event))
    }

    /// [`SpendQueue::peek`], at once.
    #[must_use]
    pub fn peek_now(&self, shard: Shard, limit: BatchLimit) -> Peeked {
        self.with(shard, |state| state.peek(shard, limit))
    }

    /// [`SpendQueue::ack`], at once.
    #[must_use]
    pub fn ack_now(&self, receipt: &Receipt) -> Acked {
        self.with(receipt.shard, |state| state.ack(receipt))
    }

    /// [`SpendQueue::reindex`], at once.
    ///
    /// # Errors
    ///
    /// When a counter would overflow; nothing changed.
    pub fn reindex_now(&self, shard: Shard) -> Result<Reindexed, MemoryQueueError> {
        self.with(shard, ShardModel::reindex)
    }

    /// Takes the head off a shard, if it is still this one, and answers whether it was. The index is in doubt from then on.
    pub fn quarantine_now(&self, shard: Shard, head: &[u8]) -> bool {
        self.with(shard, |state| state.quarantine(head))
    }

    /// Puts an entry back before the head of a shard. The index is in doubt from then on.
    pub fn restore_now(&self, shard: Shard, raw: Vec<u8>) {
        self.with(shard, |state| state.restore(raw));
    }

    /// A shard as it is now.
    #[must_use]
    pub fn snapshot(&self, shard: Shard) -> MemorySnapshot {
        MemorySnapshot { shard, state: self.with(shard, |state| state.clone()) }
    }

    /// Takes a shard back to what it was, as a fail-over does to a replica that lags behind.
    pub fn rewind(&self, snapshot: MemorySnapshot) {
        self.with(snapshot.shard, |state| *state = snapshot.state);
    }

    /// Forgets that a request id was queued in a shard, as a queue does that remembers ids for a bounded time only.
    pub fn forget(&self, shard: Shard, request: &RequestDigest) {
        self.with(shard, |state| state.forget(request));
    }

    /// What was found to have left a shard without an acknowledgement, in the order of its finding.
    #[must_use]
    pub fn losses(&self, shard: Shard) -> Vec<MemoryLoss> {
        self.with(shard, |state| state.losses().to_vec())
    }

    /// The index by time of a shard, whether or not it can be relied on.
    #[must_use]
    pub fn starts(&self, shard: Shard) -> BTreeMap<Start, Usd> {
        self.with(shard, |state| state.starts().clone())
    }

    /// [`PendingSpend::pending`], at once.
    ///
    /// # Errors
    ///
    /// When it cannot be known.
    pub fn pending_now(&self, scope: &ScopeRef) -> Result<Usd, MemoryQueueError> {
        self.sum(|state, shard| state.pending(shard, scope))
    }

    /// [`PendingSpend::pending_since`], at once.
    ///
    /// # Errors
    ///
    /// When it cannot be known.
    pub fn pending_since_now(
        &self,
        organization_id: &str,
        instant: DateTime<Utc>,
    ) -> Result<Usd, MemoryQueueError> {
        let scope = ScopeRef::new(ORGANIZATION, organization_id)?;
        let since = Start::new(organization_id, Millis::of(instant));
        self.sum(|state, shard| state.pending_since(shard, &scope, &since))
    }

    fn sum(
        &self,
        read: impl Fn(&ShardModel, Shard) -> Result<Usd, MemoryQueueError>,
    ) -> Result<Usd, MemoryQueueError> {
        self.lock().iter().try_fold(Usd::ZERO, |sum, (shard, state)| {
            Ok(sum.checked_add(read(state, *shard)?).unwrap_or(sum))
        })
    }

    fn with<T>(&self, shard: Shard, act: impl FnOnce(&mut ShardModel) -> T) -> T {
        act(self.lock().entry(shard).or_default())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Shard, ShardModel>> {
        // A panicking test must not hide what another thread can still see.
        self.shards.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Numbers that a shard's state named and its list did not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MemoryLoss {
    /// The first of them.
    pub first: u64,
    /// The last of them.
    pub last: u64,
    /// How many entries of this range were there all the same.
    pub present: u64,
}

impl SpendQueue for MemoryQueue {
    type Error = MemoryQueueError;

    fn shards(&self) -> ShardCount {
        self.count
    }

    fn epoch(&self) -> Epoch {
        Epoch::new("memory", self.count)
    }

    fn enqueue(&self, event: &EncodedEvent) -> impl Future<Output = Result<Enqueued, Self::Error>> + Send {
        ready(self.enqueue_now(event))
    }

    fn peek(
        &self,
        shard: Shard,
        limit: BatchLimit,
    ) -> impl Future<Output = Result<Peeked, Self::Error>> + Send {
        ready(Ok(self.peek_now(shard, limit)))
    }

    fn ack(&self, receipt: &Receipt) -> impl Future<Output = Result<Acked, Self::Error>> + Send {
        ready(Ok(self.ack_now(receipt)))
    }

    fn reindex(&self, shard: Shard) -> impl Future<Output = Result<Reindexed, Self::Error>> + Send {
        ready(self.reindex_now(shard))
    }

    fn depth(&self, shard: Shard) -> impl Future<Output = Result<u64, Self::Error>> + Send {
        ready(Ok(self.with(shard, |state| state.depth())))
    }
}

impl PendingSpend for MemoryQueue {
    type Error = MemoryQueueError;

    fn pending(&self, scope: &ScopeRef) -> impl Future<Output = Result<Usd, Self::Error>> + Send {
        ready(self.pending_now(scope))
    }

    fn pending_since(
        &self,
        organization_id: &str,
        instant: DateTime<Utc>,
    ) -> impl Future<Output = Result<Usd, Self::Error>> + Send {
        ready(self.pending_since_now(organization_id, instant))
    }

    fn pending_key(&self, key_id: &str) -> impl Future<Output = Result<Usd, Self::Error>> + Send {
        let scope = ScopeRef::new("key", key_id).map_err(MemoryQueueError::from);
        ready(scope.and_then(|scope| self.pending_now(&scope)))
    }
}
