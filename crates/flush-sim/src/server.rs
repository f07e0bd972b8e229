//! The two servers: models that serve one request at a time, watched by the oracle, with a planted bug if one is asked for.

mod mishap;
mod planted;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use rand_chacha::ChaCha8Rng;
use spend_queue::{
    Acked, Charge, EncodedEvent, Enqueued, Entry, Index, MemoryQueue, MemorySnapshot, Millis, PrefixDigest,
    Receipt, Reindexed, Shard, Stop, Usd,
};
use usage_flusher::Settlement;

use crate::Bug;
use crate::ledger::LedgerModel;
use crate::oracle::{Loss, Oracle, Past, Strict, hours_before, organization};
use crate::plan::Plan;
use crate::request::{CallError, Reply, Request};
use crate::tally::{Fault, Situation, Tally};
use crate::violation::{Rule, Violation, must};
use planted::Marks;

/// How many operations a replica can lag behind.
const LAG: usize = 8;

/// What a request is answered, unless it broke a promise.
pub(crate) type Served = Result<Result<Reply, CallError>, Violation>;

/// Queue and ledger.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) queue: MemoryQueue,
    pub(crate) ledger: LedgerModel,
    pub(crate) oracle: Oracle,
    pub(crate) bug: Option<Bug>,
    /// Memories of request ids that only planted bugs keep.
    marks: BTreeMap<Shard, Marks>,
    /// Shards whose index counts as proven although it is not; only for a planted bug.
    trusted: BTreeSet<Shard>,
    /// The first and the last entry of each batch that was to be committed; only for planted bugs.
    ends: HashMap<PrefixDigest, [Vec<u8>; 2]>,
    /// What each shard was before its last operations.
    history: BTreeMap<Shard, VecDeque<Before>>,
    /// Whether there may be a fail-over, for which the past is kept.
    remembers: bool,
    garbage: u64,
    reads: usize,
}

/// A shard before an operation.
#[derive(Debug)]
struct Before {
    state: MemorySnapshot,
    past: Past,
    marks: Option<Marks>,
}

impl Server {
    pub(crate) fn new(plan: &Plan, bug: Option<Bug>) -> Self {
        Self {
            queue: MemoryQueue::new(plan.shards),
            ledger: LedgerModel::default(),
            oracle: Oracle::new(plan.shards),
            bug,
            marks: BTreeMap::new(),
            trusted: BTreeSet::new(),
            ends: HashMap::new(),
            history: BTreeMap::new(),
            remembers: plan.weather.fail_over > 0.0,
            garbage: 0,
            reads: 0,
        }
    }

    /// Serves a request, whole. `refused`: the ledger gives the transaction up.
    pub(crate) fn serve(
        &mut self,
        request: &Request,
        refused: bool,
        plan: &Plan,
        rng: &mut ChaCha8Rng,
        tally: &mut Tally,
    ) -> Served {
        match request {
            Request::Enqueue(event) => {
                let shard = plan.shards.shard_of(event.partition());
                let reply = self.enqueue(shard, event, rng, tally)?;
                self.check(shard, plan, tally)?;
                Ok(reply)
            }
            Request::Peek(shard, limit) => {
                let peeked = self.peek_with_bug(*shard, *limit);
                let raw = self.queue.raw(*shard);
                self.oracle.view(*shard).peeked(&peeked, *limit, &raw)?;
                match &peeked.stop {
                    Some(Stop::Corrupt { position: 0, .. }) => tally.situation(Situation::CorruptHead),
                    Some(Stop::ChainBreak { .. }) => tally.situation(Situation::ChainBreak),
                    _ => {}
                }
                if peeked.index == Index::Doubtful {
                    tally.situation(Situation::Doubt);
                }
                Ok(Ok(Reply::Peeked(Box::new(peeked))))
            }
            Request::Ack(receipt) => {
                let outcome = self.ack(receipt, tally)?;
                self.check(receipt.shard, plan, tally)?;
                Ok(Ok(Reply::Acked(outcome)))
            }
            Request::Reindex(shard) => {
                let reply = self.reindex(*shard, tally)?;
                self.check(*shard, plan, tally)?;
                Ok(reply.map(Reply::Reindexed))
            }
            Request::Depth(shard) => {
                let depth = u64::try_from(self.queue.raw(*shard).len()).unwrap_or(u64::MAX);
                Ok(Ok(Reply::Depth(depth)))
            }
            Request::Quarantine(shard, head) => {
                let before = self.before(*shard);
                let taken = self.quarantine_with_bug(*shard, head);
                let raw = self.queue.raw(*shard);
                self.oracle.view(*shard).quarantined(head, taken, &raw)?;
                if taken {
                    self.record(*shard, before);
                    tally.situation(Situation::Quarantined);
                }
                self.check(*shard, plan, tally)?;
                Ok(Ok(Reply::Quarantined(taken)))
            }
            Request::Commit { settlement, known } => {
                if let (Some(Bug::HeadOnlyAck | Bug::EndsOnlyAck), [first, .., last]) =
                    (self.bug, &settlement.entries[..])
                {
                    let digest = PrefixDigest::of(settlement.entries.iter().map(Entry::raw));
                    self.ends.insert(digest, [first.raw().to_vec(), last.raw().to_vec()]);
                }
                let reply = self.commit(settlement, known.as_ref(), refused, tally);
                let reply = reply.and_then(|reply| {
                    self.oracle.books.compare(&self.ledger, &plan.scopes).map(|()| reply)
                })?;
                Ok(reply)
            }
        }
    }

    fn enqueue(
        &mut self,
        shard: Shard,
        event: &EncodedEvent,
        rng: &mut ChaCha8Rng,
        tally: &mut Tally,
    ) -> Served {
        let before = self.before(shard);
        let outcome = self.enqueue_with_bug(shard, event, rng);
        let raw = self.queue.raw(shard);
        let accepted = matches!(outcome, Ok(Enqueued::Accepted { .. }));
        let appended = raw.last().filter(|_| accepted).map(|last| self.oracle.item(last));
        let answer = outcome.as_ref().ok().copied();
        self.oracle.view(shard).enqueued(event, answer, &raw, appended)?;
        match outcome {
            Ok(Enqueued::Accepted { .. }) => self.record(shard, before),
            Ok(Enqueued::Duplicate) => tally.situation(Situation::Duplicate),
            Ok(Enqueued::Conflict) => tally.situation(Situation::Conflict),
            Err(_) => {}
        }
        Ok(outcome.map(Reply::Enqueued))
    }

    fn ack(&mut self, receipt: &Receipt, tally: &mut Tally) -> Result<Acked, Violation> {
        let before = self.before(receipt.shard);
        let outcome = self.ack_with_bug(receipt);
        let raw = self.queue.raw(receipt.shard);
        let taken = self.oracle.view(receipt.shard).acked(receipt, outcome, &raw)?;
        for item in &taken {
            let committed = item.entry.as_ref().is_some_and(|entry| self.oracle.books.is_committed(entry));
            must(committed, Rule::NothingUncommittedTrimmed, || {
                format!("{:?} was taken off shard {} and is not settled", item.id(), receipt.shard)
            })?;
        }
        match outcome {
            Acked::Done { short_counters, .. } => {
                self.record(receipt.shard, before);
                tally.situation(Situation::Acknowledged);
                if short_counters > 0 {
                    tally.situation(Situation::ShortCounters);
                }
            }
            Acked::Changed => tally.situation(Situation::AckChanged),
        }
        Ok(outcome)
    }

    fn reindex(
        &mut self,
        shard: Shard,
        tally: &mut Tally,
    ) -> Result<Result<Reindexed, CallError>, Violation> {
        let before = self.before(shard);
        let outcome = self.reindex_with_bug(shard);
        let raw = self.queue.raw(shard);
        if let Ok(outcome) = &outcome {
            self.oracle.view(shard).reindexed(outcome, &raw)?;
            match outcome {
                Reindexed::Rebuilt { .. } => {
                    self.record(shard, before);
                    tally.situation(Situation::Rebuilt);
                }
                Reindexed::Blocked { .. } => tally.situation(Situation::ReindexBlocked),
                _ => {}
            }
        }
        Ok(outcome)
    }

    fn commit(
        &mut self,
        settlement: &Settlement,
        known: Option<&BTreeSet<String>>,
        refused: bool,
        tally: &mut Tally,
    ) -> Served {
        if refused {
            if self.bug == Some(Bug::HalfCommit) {
                self.ledger.commit_half(&settlement.entries);
            }
            return Ok(Err(CallError::Serialization));
        }
        let committed = self.ledger.commit(&settlement.entries, known, self.bug);
        self.oracle.books.commit(settlement.shard, &settlement.entries, &committed)?;
        if committed.duplicates > 0 {
            tally.situation(Situation::SettledBefore);
        }
        if !committed.conflicts.is_empty() {
            tally.situation(Situation::SettledOtherwise);
        }
        Ok(Ok(Reply::Committed(committed)))
    }

    /// What must be true after each operation on a shard.
    fn check(&mut self, shard: Shard, plan: &Plan, tally: &mut Tally) -> Result<(), Violation> {
        self.oracle.check_owed(shard)?;
        // One scope and one instant after the other: each is read often enough, and a read is dear while a doubt lasts.
        self.reads += 1;
        let Some(scope) = plan.scopes.get(self.reads % plan.scopes.len().max(1)) else { return Ok(()) };
        let index = plan.shards.iter().map(|shard| (shard, self.queue.index(shard))).collect();
        let since = organization(scope).filter(|_| self.reads.is_multiple_of(2));
        let (expected, answer) = match since {
            None => (self.oracle.pending(&index, scope, None), self.pending_with_bug(scope)),
            Some(organization) => {
                let hours = i64::try_from(self.reads * 7 % 80).unwrap_or_default();
                let instant = hours_before(hours);
                let since = Millis::of(instant);
                (
                    self.oracle.pending(&index, scope, Some(since)),
                    self.queue.pending_since_now(organization, instant),
                )
            }
        };
        expected.check(scope, &answer)?;
        match (expected, &answer) {
            (Strict::Hidden(_), _) => tally.situation(Situation::HiddenOverwrite),
            (_, Err(_)) => tally.situation(Situation::StrictRefused),
            (_, Ok(amount)) if !amount.is_zero() => tally.situation(Situation::StrictAmount),
            _ => {}
        }
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.oracle.views().all(|(_, view)| view.items.is_empty())
    }

    /// What must be true when everything is drained.
    pub(crate) fn check_end(&mut self, plan: &Plan, tally: &mut Tally) -> Result<(), Violation> {
        // Where another hand emptied a list, the next operation on it clears the index; a strict read knows better.
        let cleared = !tally.faults.contains_key(&Fault::ForeignPop);
        for shard in plan.shards.iter() {
            self.oracle.check_owed(shard)?;
            let starts = self.queue.starts(shard);
            must(starts.is_empty() || !cleared, Rule::PendingExact, || {
                format!("shard {shard} is empty, and its index by time has {starts:?}")
            })?;
        }
        for scope in &plan.scopes {
            let (hot, pending) = (self.queue.hot(scope), self.queue.pending_now(scope));
            let gone = (hot == Charge::default() || !cleared) && pending == Ok(Usd::ZERO);
            must(gone, Rule::PendingExact, || {
                format!("everything is drained, and {scope} has {hot:?}, pending {pending:?}")
            })?;
        }
        self.oracle.books.compare_all(&self.ledger, &plan.scopes)?;
        for (_, loss) in self.oracle.losses() {
            tally.situation(match loss {
                Loss::FailOver => Situation::LostToFailOver,
                Loss::ForeignHand => Situation::LostToForeignHand,
            });
        }
        tally.settled += u64::try_from(self.oracle.books.settled()).unwrap_or(u64::MAX);
        Ok(())
    }
}
