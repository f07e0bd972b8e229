//! One shard of the model: what each step does to its state.

use std::collections::{BTreeMap, VecDeque};

use super::{MemoryLoss, MemoryQueueError};
use crate::{
    Acked, BatchLimit, Chain, Charge, EncodedEvent, Enqueued, Entry, Index, Link, MAX_PEEK_BYTES, Millis,
    Peeked, PrefixDigest, Receipt, Reindexed, RequestDigest, ScopeRef, Shard, Start, Usd,
};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ShardModel {
    pub(super) list: VecDeque<Vec<u8>>,
    seen: BTreeMap<RequestDigest, [u8; 4]>,
    hot: BTreeMap<ScopeRef, Charge>,
    since: BTreeMap<Start, Usd>,
    head: u64,
    next: u64,
    chain: Chain,
    doubt: bool,
    losses: Vec<MemoryLoss>,
}

impl Default for ShardModel {
    fn default() -> Self {
        Self {
            list: VecDeque::new(),
            seen: BTreeMap::new(),
            hot: BTreeMap::new(),
            since: BTreeMap::new(),
            head: 1,
            next: 1,
            chain: Chain::GENESIS,
            doubt: false,
            losses: Vec::new(),
        }
    }
}

impl ShardModel {
    pub(super) fn depth(&self) -> u64 {
        u64::try_from(self.list.len()).unwrap_or(u64::MAX)
    }

    pub(super) fn hot(&self, scope: &ScopeRef) -> Charge {
        self.hot.get(scope).copied().unwrap_or_default()
    }

    pub(super) fn index(&self) -> Index {
        let head = format!("{{\"seq\":{},", self.head);
        let whole = self.next.checked_sub(self.head) == Some(self.depth())
            && self.list.front().is_some_and(|first| first.starts_with(head.as_bytes()))
            && self.list.back().is_some_and(|last| self.is_tail(last));
        if self.list.is_empty() || (whole && !self.doubt) { Index::Proven } else { Index::Doubtful }
    }

    pub(super) fn enqueue(&mut self, event: &EncodedEvent) -> Result<Enqueued, MemoryQueueError> {
        let check = event.payload_check().short();
        if let Some(known) = self.seen.get(&event.digest()) {
            return Ok(if *known == check { Enqueued::Duplicate } else { Enqueued::Conflict });
        }
        if self.list.is_empty() {
            self.forget_index();
        }
        let mut sums = Vec::new();
        for (scope, picos) in event.charges() {
            let charge = self.hot(scope);
            let amount = charge.amount.checked_add(Usd::from_picos(picos.into()));
            match amount.filter(|amount| amount.counter().is_ok()) {
                Some(amount) => sums.push((scope, Charge { amount, paid_events: charge.paid_events + 1 })),
                None => return Err(MemoryQueueError::CounterOverflow(scope.clone())),
            }
        }
        let paid = event.charges().next().map(|(_, picos)| Usd::from_picos(picos.into())).unwrap_or_default();
        let full = |start: Start| {
            let amount = self.since.get(&start).copied().unwrap_or_default().checked_add(paid);
            amount.is_none_or(|amount| amount.counter().is_err())
        };
        // Only where another hand made the index by time hold more than its scope.
        if let (true, Some((scope, _))) = (event.starts().any(full), event.charges().next()) {
            return Err(MemoryQueueError::CounterOverflow(scope.clone()));
        }
        if self.list.is_empty() {
            self.note_missing();
        }
        self.doubt |= self.list.back().is_some_and(|last| !self.is_tail(last));
        let (seq, chain) = (self.next, event.chain_after(self.chain, self.next));
        if self.list.is_empty() {
            self.head = seq;
        }
        self.list.push_back(event.entry(seq, chain).into_bytes());
        self.seen.insert(event.digest(), check);
        self.hot.extend(sums.into_iter().map(|(scope, charge)| (scope.clone(), charge)));
        for start in event.starts() {
            let amount = self.since.entry(start).or_default();
            *amount = amount.checked_add(paid).unwrap_or(*amount);
        }
        (self.next, self.chain) = (seq + 1, chain);
        Ok(Enqueued::Accepted { seq, depth: self.depth() })
    }

    pub(super) fn peek(&self, shard: Shard, limit: BatchLimit) -> Peeked {
        let mut bytes = 0;
        let within = |raw: &&Vec<u8>| {
            let first = bytes == 0;
            bytes += raw.len();
            first || bytes <= MAX_PEEK_BYTES
        };
        let count = usize::try_from(limit.get()).unwrap_or(usize::MAX);
        let raw: Vec<_> = self.list.iter().take(count).take_while(within).cloned().collect();
        Peeked::read(shard, raw, self.depth(), self.index())
    }

    pub(super) fn ack(&mut self, receipt: &Receipt) -> Acked {
        let Some(last) = usize::try_from(receipt.entries).ok().and_then(|count| count.checked_sub(1)) else {
            return Acked::Changed;
        };
        if self.list.len() <= last || PrefixDigest::of(self.list.iter().take(last + 1)) != receipt.digest {
            return Acked::Changed;
        }
        let mut short_counters = 0;
        for (scope, taken) in &receipt.charges {
            let held = self.hot.remove(scope).unwrap_or_default();
            let events = held.paid_events.checked_sub(taken.paid_events);
            let amount = left_over(held.amount, taken.amount);
            match amount.zip(events) {
                Some((amount, 0)) if amount.is_zero() => {}
                Some((amount, paid_events)) if !amount.is_zero() && paid_events > 0 => {
                    self.hot.insert(scope.clone(), Charge { amount, paid_events });
                }
                _ => short_counters += 1,
            }
        }
        for (start, taken) in &receipt.starts {
            match left_over(self.since.remove(start).unwrap_or_default(), *taken) {
                Some(amount) if amount.is_zero() => {}
                Some(amount) => drop(self.since.insert(start.clone(), amount)),
                None => short_counters += 1,
            }
        }
        // What another hand put in place of an entry shows when it comes to the head.
        let behind = self.list.get(last).zip(self.list.get(last + 1));
        let foreign = behind.is_some_and(|(last, after)| !Entry::are_linked(last, after));
        self.doubt |= short_counters > 0 || foreign;
        if self.list.len() == last + 1 {
            self.note_missing();
        }
        self.list.drain(..=last);
        self.head += u64::from(receipt.entries);
        self.settle_if_empty();
        Acked::Done { depth: self.depth(), short_counters }
    }

    pub(super) fn quarantine(&mut self, head: &[u8]) -> bool {
        if self.list.front().is_none_or(|front| front != head) {
            return false;
        }
        if self.list.len() == 1 {
            self.note_missing();
        }
        // Its number is accounted for, where the list has no more than the state names.
        if self.next.saturating_sub(self.head) >= self.depth() {
            self.head += 1;
        }
        self.list.pop_front();
        self.doubt = true;
        self.settle_if_empty();
        true
    }

    pub(super) fn restore(&mut self, raw: Vec<u8>) {
        if number_of(&raw).is_some_and(|number| number + 1 == self.head) {
            self.head -= 1;
        }
        self.list.push_front(raw);
        self.doubt = true;
    }

    pub(super) fn forget(&mut self, request: &RequestDigest) {
        self.seen.remove(request);
    }

    pub(super) const fn starts(&self) -> &BTreeMap<Start, Usd> {
        &self.since
    }

    pub(super) fn reindex(&mut self) -> Result<Reindexed, MemoryQueueError> {
        if self.index() == Index::Proven {
            return Ok(Reindexed::Proven);
        }
        let mut entries: Vec<Entry> = Vec::new();
        for (position, raw) in (0..).zip(&self.list) {
            match Entry::decode(raw.clone()) {
                Ok(entry) if entries.last().is_none_or(|before| entry.follows(before)) => entries.push(entry),
                _ => return Ok(Reindexed::Blocked { position }),
            }
        }
        let mut sums: BTreeMap<&ScopeRef, Usd> = BTreeMap::new();
        for entry in &entries {
            for scope in &entry.event.scopes {
                let sum = sums.entry(scope).or_default();
                *sum = sum.checked_add(entry.event.paid().unwrap_or_default()).unwrap_or(*sum);
            }
        }
        if let Some((scope, _)) = sums.iter().find(|(_, sum)| sum.counter().is_err()) {
            return Err(MemoryQueueError::CounterOverflow((*scope).clone()));
        }
        self.note_missing();
        self.forget_index();
        for entry in &entries {
            self.recharge(entry);
        }
        if entries.is_empty() {
            self.head = self.next;
        }
        if let (Some(first), Some(last)) = (link(entries.first()), link(entries.last())) {
            (self.head, self.next, self.chain) = (first.seq, last.seq + 1, last.chain);
        }
        Ok(Reindexed::Rebuilt { entries: self.depth() })
    }

    pub(super) fn pending(&self, shard: Shard, scope: &ScopeRef) -> Result<Usd, MemoryQueueError> {
        self.known(shard, |charged, _| charged == scope, || Some(self.hot(scope).amount))
    }

    pub(super) fn pending_since(
        &self,
        shard: Shard,
        scope: &ScopeRef,
        since: &Start,
    ) -> Result<Usd, MemoryQueueError> {
        let current = |started: Option<Millis>| started.is_none_or(|started| started >= since.at());
        self.known(
            shard,
            |charged, started| charged == scope && current(started),
            || {
                let first = Start::new(since.organization_id(), Millis::EPOCH);
                let older =
                    Usd::checked_sum(self.since.range(first..since.clone()).map(|(_, amount)| *amount));
                older.and_then(|older| left_over(self.hot(scope).amount, older))
            },
        )
    }

    /// From the index where it is proven, else from the entries.
    fn known(
        &self,
        shard: Shard,
        counts: impl Fn(&ScopeRef, Option<Millis>) -> bool,
        indexed: impl FnOnce() -> Option<Usd>,
    ) -> Result<Usd, MemoryQueueError> {
        if self.list.is_empty() {
            return Ok(Usd::ZERO);
        }
        if self.index() == Index::Proven {
            return indexed().ok_or(MemoryQueueError::Inconsistent { shard });
        }
        let mut sum = Usd::ZERO;
        for (position, raw) in (0..).zip(&self.list) {
            let entry =
                Entry::decode(raw.clone()).map_err(|_| MemoryQueueError::Unreadable { shard, position })?;
            let started = entry.event.started_at.map(Millis::of);
            if entry.event.scopes.iter().any(|scope| counts(scope, started)) {
                sum = sum.checked_add(entry.event.paid().unwrap_or_default()).unwrap_or(sum);
            }
        }
        Ok(sum)
    }

    fn recharge(&mut self, entry: &Entry) {
        let Some(cost) = entry.event.paid() else { return };
        for scope in &entry.event.scopes {
            let charge = self.hot.entry(scope.clone()).or_default();
            charge.amount = charge.amount.checked_add(cost).unwrap_or(charge.amount);
            charge.paid_events += 1;
            let at = entry.event.started_at.map(Millis::of);
            if let Some(start) = at.and_then(|at| Start::of(scope, at)) {
                let amount = self.since.entry(start).or_default();
                *amount = amount.checked_add(cost).unwrap_or(*amount);
            }
        }
    }

    /// Writes down the numbers that the state names and the list does not have.
    fn note_missing(&mut self) {
        let (head, tail, present) = (self.head, self.next - 1, self.depth());
        if (tail + 1).saturating_sub(head) <= present {
            return;
        }
        let first = self.list.front().and_then(|raw| number_of(raw));
        let last = self.list.back().and_then(|raw| number_of(raw));
        let whole = first.zip(last).filter(|(first, last)| (last + 1).checked_sub(*first) == Some(present));
        let (first, last, present) = match whole {
            Some((first, last)) if first > head && last >= tail => (head, first - 1, 0),
            Some((first, last)) if first <= head && last < tail => (last + 1, tail, 0),
            _ => (head, tail, present),
        };
        self.losses.push(MemoryLoss { first, last, present });
    }

    pub(super) fn losses(&self) -> &[MemoryLoss] {
        &self.losses
    }

    fn is_tail(&self, last: &[u8]) -> bool {
        let link = format!("{{\"seq\":{},\"chain\":\"{}\",", self.next - 1, self.chain);
        last.starts_with(link.as_bytes())
    }

    fn settle_if_empty(&mut self) {
        if self.list.is_empty() {
            self.forget_index();
            self.head = self.next;
        }
    }

    /// Nothing is pending in an empty queue, whatever the counters say.
    fn forget_index(&mut self) {
        self.hot.clear();
        self.since.clear();
        self.doubt = false;
    }
}

fn left_over(held: Usd, taken: Usd) -> Option<Usd> {
    held.checked_sub(taken).filter(|left| !left.is_negative())
}

/// The number that bytes start with, whether or not an entry follows.
fn number_of(raw: &[u8]) -> Option<u64> {
    let digits = raw.strip_prefix(b"{\"seq\":")?.split(|byte| *byte == b',').next()?;
    let text =
        core::str::from_utf8(digits).ok().filter(|text| text.len() <= 15 && digits.len() < raw.len())?;
    text.parse().ok().filter(|number: &u64| *number > 0 && number.to_string() == text)
}

fn link(entry: Option<&Entry>) -> Option<Link> {
    entry.and_then(|entry| entry.link)
}
