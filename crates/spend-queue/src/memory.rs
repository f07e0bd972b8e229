//! A queue in memory that obeys the contract: the model for tests of the real one.

use core::future::{Future, ready};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use thiserror::Error;

use crate::{
    Acked, BatchLimit, Chain, Charge, EncodedEvent, Enqueued, MAX_PEEK_BYTES, Peeked, QueueError, Receipt,
    RequestDigest, ScopeRef, Shard, ShardCount, SpendQueue, Usd,
};

/// A [`SpendQueue`] that lives and dies with the process: for tests and simulations, never for bills.
#[derive(Debug, Default)]
pub struct MemoryQueue {
    count: ShardCount,
    shards: Mutex<HashMap<Shard, State>>,
}

#[derive(Debug)]
struct State {
    list: VecDeque<Vec<u8>>,
    seen: HashMap<RequestDigest, [u8; 4]>,
    hot: BTreeMap<ScopeRef, Charge>,
    next: u64,
    chain: Chain,
    index_damaged: bool,
}

/// Why the model refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MemoryQueueError {
    /// The pending amount of a scope would not fit one counter (`i64` picodollars). Acknowledging helps.
    #[error("pending spend of {0} would exceed 9223372.036854775807 USD")]
    CounterOverflow(ScopeRef),
}

impl QueueError for MemoryQueueError {
    fn is_transient(&self) -> bool {
        match self {
            Self::CounterOverflow(_) => true,
        }
    }
}

impl Default for State {
    fn default() -> Self {
        Self {
            list: VecDeque::new(),
            seen: HashMap::new(),
            hot: BTreeMap::new(),
            next: 1,
            chain: Chain::GENESIS,
            index_damaged: false,
        }
    }
}

impl MemoryQueue {
    /// An empty queue of so many shards.
    #[must_use]
    pub fn new(count: ShardCount) -> Self {
        Self { count, shards: Mutex::default() }
    }

    /// Pending money and paid events of a scope.
    #[must_use]
    pub fn hot(&self, scope: &ScopeRef) -> Charge {
        self.lock().values().filter_map(|state| state.hot.get(scope)).fold(
            Charge::default(),
            |sum, charge| Charge {
                amount: sum.amount.checked_add(charge.amount).unwrap_or(sum.amount),
                paid_events: sum.paid_events + charge.paid_events,
            },
        )
    }

    /// The raw list of a shard, oldest first.
    #[must_use]
    pub fn raw(&self, shard: Shard) -> Vec<Vec<u8>> {
        self.lock().get(&shard).map(|state| state.list.iter().cloned().collect()).unwrap_or_default()
    }

    /// Changes the raw list of a shard behind the queue's back, as a foreign writer would.
    pub fn tamper(&self, shard: Shard, change: impl FnOnce(&mut VecDeque<Vec<u8>>)) {
        change(&mut self.lock().entry(shard).or_default().list);
    }

    /// [`SpendQueue::enqueue`], at once.
    ///
    /// # Errors
    ///
    /// When a counter would overflow.
    pub fn enqueue_now(&self, event: &EncodedEvent) -> Result<Enqueued, MemoryQueueError> {
        let mut shards = self.lock();
        let state = shards.entry(self.count.shard_of(event.partition())).or_default();
        let check = event.payload_check().short();
        if let Some(known) = state.seen.get(&event.digest()) {
            return Ok(if *known == check { Enqueued::Duplicate } else { Enqueued::Conflict });
        }
        if state.list.is_empty() {
            state.clear_index();
        }
        let mut sums = Vec::new();
        for (scope, picos) in event.charges() {
            let charge = state.hot.get(scope).copied().unwrap_or_default();
            let amount = charge.amount.checked_add(Usd::from_picos(picos.into()));
            match amount.filter(|amount| amount.counter().is_ok()) {
                Some(amount) => sums.push((scope, Charge { amount, paid_events: charge.paid_events + 1 })),
                None => return Err(MemoryQueueError::CounterOverflow(scope.clone())),
            }
        }
        let (seq, chain) = (state.next, state.chain.next(state.next, event.body()));
        state.list.push_back(event.entry(seq, chain).into_bytes());
        state.seen.insert(event.digest(), check);
        state.hot.extend(sums.into_iter().map(|(scope, charge)| (scope.clone(), charge)));
        (state.next, state.chain) = (seq + 1, chain);
        Ok(Enqueued::Accepted { seq, depth: length(&state.list) })
    }

    /// [`SpendQueue::peek`], at once.
    #[must_use]
    pub fn peek_now(&self, shard: Shard, limit: BatchLimit) -> Peeked {
        let mut shards = self.lock();
        let list = &shards.entry(shard).or_default().list;
        let mut bytes = 0;
        let within = |raw: &&Vec<u8>| {
            let first = bytes == 0;
            bytes += raw.len();
            first || bytes <= MAX_PEEK_BYTES
        };
        let count = usize::try_from(limit.get()).unwrap_or(usize::MAX);
        let raw: Vec<_> = list.iter().take(count).take_while(within).cloned().collect();
        Peeked::read(shard, raw, length(list))
    }

    /// [`SpendQueue::ack`], at once.
    #[must_use]
    pub fn ack_now(&self, receipt: &Receipt) -> Acked {
        let mut shards = self.lock();
        let state = shards.entry(receipt.shard).or_default();
        let Some(last) = usize::try_from(receipt.entries).ok().and_then(|count| count.checked_sub(1)) else {
            return Acked::Changed;
        };
        if state.list.front() != Some(&receipt.head) || state.list.get(last) != Some(&receipt.last) {
            return Acked::Changed;
        }
        let mut short_counters = 0;
        for (scope, taken) in &receipt.charges {
            let held = state.hot.remove(scope).unwrap_or_default();
            let events = held.paid_events.checked_sub(taken.paid_events);
            let amount = held.amount.checked_sub(taken.amount).filter(|amount| !amount.is_negative());
            match amount.zip(events) {
                Some((amount, 0)) if amount.is_zero() => {}
                Some((amount, paid_events)) if !amount.is_zero() && paid_events > 0 => {
                    state.hot.insert(scope.clone(), Charge { amount, paid_events });
                }
                _ => short_counters += 1,
            }
        }
        state.index_damaged |= short_counters > 0;
        state.list.drain(..=last);
        if state.list.is_empty() {
            state.clear_index();
        }
        Acked::Done { depth: length(&state.list), short_counters }
    }

    /// Whether an acknowledgement found counters that held too little, and nothing has cured it since.
    #[must_use]
    pub fn index_damaged(&self, shard: Shard) -> bool {
        self.lock().get(&shard).is_some_and(|state| state.index_damaged)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Shard, State>> {
        // A panicking test must not hide what another thread can still see.
        self.shards.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Nothing is pending in an empty queue, whatever the counters say.
    fn clear_index(&mut self) {
        self.hot.clear();
        self.index_damaged = false;
    }
}

fn length(list: &VecDeque<Vec<u8>>) -> u64 {
    u64::try_from(list.len()).unwrap_or(u64::MAX)
}

impl SpendQueue for MemoryQueue {
    type Error = MemoryQueueError;

    fn shards(&self) -> ShardCount {
        self.count
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

    fn depth(&self, shard: Shard) -> impl Future<Output = Result<u64, Self::Error>> + Send {
        ready(Ok(length(&self.lock().entry(shard).or_default().list)))
    }
}
