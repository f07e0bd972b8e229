//! Redis and the model side by side.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;

use live_redis::{Backlog, LiveRedis, LiveRedisError, OperatorNote};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use spend_queue::{
    Acked, EncodedEvent, Enqueued, Index, MemoryQueue, MemoryQueueError, PendingSpend, Receipt, Reindexed,
    ScopeRef, ShardCount, SpendQueue, Stop, Usd,
};

use crate::act::{Act, Call, SCOPES, since};
use crate::common::{Hot, limit, now, shard};
use crate::foreign::{Foreign, change};

/// How many receipts a program keeps.
const RECEIPTS: usize = 4;

pub(crate) struct World {
    hot: Hot,
    /// A second gateway.
    other: LiveRedis,
    model: MemoryQueue,
    /// With the entries that each one names.
    receipts: VecDeque<(Receipt, Vec<Vec<u8>>)>,
    /// What was moved aside, oldest first.
    aside: Vec<Vec<u8>>,
    /// Whether the server keeps what it has when it dies.
    durable: bool,
    steps: u64,
}

type Outcome = Result<(), TestCaseError>;

impl World {
    pub(crate) async fn new(hot: Hot, durable: bool) -> Self {
        let other = hot.another(|options| options).await;
        let model = MemoryQueue::new(ShardCount::ONE);
        Self { hot, other, model, receipts: VecDeque::new(), aside: Vec::new(), durable, steps: 0 }
    }

    /// Runs a program, compares all of the state every few steps, and drains what is left; answers how many steps.
    pub(crate) async fn run(&mut self, program: Vec<Act>) -> Result<u64, TestCaseError> {
        for act in program {
            self.steps += 1;
            self.step(act).await?;
            if self.steps.is_multiple_of(8) {
                self.compare().await?;
            }
        }
        self.compare().await?;
        self.drain().await?;
        prop_assert_eq!(self.hot.redis.degradations(), 0);
        Ok(self.steps)
    }

    async fn step(&mut self, act: Act) -> Outcome {
        match act {
            Act::Enqueue(call) => {
                let event = call.event(self.millis());
                let got = self.hot.redis.enqueue(&event).await;
                let want = self.model.enqueue_now(&event);
                same_enqueued(&got, &want)
            }
            Act::Burst(calls) => self.burst(&calls).await,
            Act::Peek { entries } => {
                let peeked = self.hot.redis.peek(shard(), limit(entries)).await.unwrap();
                prop_assert_eq!(&peeked, &self.model.peek_now(shard(), limit(entries)));
                let raw = peeked.entries.iter().map(|entry| entry.raw().to_vec()).collect();
                self.receipts.extend(peeked.receipt().map(|receipt| (receipt, raw)));
                if self.receipts.len() > RECEIPTS {
                    self.receipts.pop_front();
                }
                Ok(())
            }
            Act::Ack { back } => match self.receipt(back) {
                Some((receipt, raw)) => self.ack(receipt, raw).await,
                None => Ok(()),
            },
            Act::AckMixed { back, other } => {
                let (Some((receipt, _)), Some((other, raw))) = (self.receipt(back), self.receipt(other))
                else {
                    return Ok(());
                };
                self.ack(&Receipt { digest: other.digest, ..receipt.clone() }, raw).await
            }
            Act::AckTooMuch => {
                let Some((mut receipt, raw)) = self.receipt(0).cloned() else { return Ok(()) };
                for charge in receipt.charges.values_mut() {
                    charge.amount = charge.amount.checked_add(Usd::from_picos(1)).unwrap();
                    charge.paid_events += 1;
                }
                self.ack(&receipt, &raw).await
            }
            Act::Pending { scope } => {
                let scope = SCOPES[scope].parse().unwrap();
                let got = self.hot.redis.pending(&scope).await;
                self.same_amount(&got, &self.model.pending_now(&scope))
            }
            Act::PendingKey => {
                let got = self.hot.redis.pending_key("k").await;
                self.same_amount(&got, &self.model.pending_now(&SCOPES[3].parse().unwrap()))
            }
            Act::PendingSince { organization, millis } => {
                let id = ["o", "p", "nobody"][organization];
                let got = self.hot.redis.pending_since(id, since(millis)).await;
                self.same_amount(&got, &self.model.pending_since_now(id, since(millis)))
            }
            Act::PendingAll(queries) => {
                let got = self.hot.redis.pending_all(&queries).await;
                self.same_amount(&got, &self.model.pending_all(&queries).await)
            }
            Act::Foreign(foreign) => {
                self.tamper(foreign).await;
                Ok(())
            }
            Act::Reindex => self.reindex().await,
            Act::Quarantine { right } => self.quarantine(right).await,
            Act::Restore { item } => self.restore(item).await,
            Act::Crash => {
                self.hot.crash().await;
                self.other = self.hot.another(|options| options).await;
                if !self.durable {
                    self.model = MemoryQueue::new(ShardCount::ONE);
                    self.aside.clear();
                }
                self.compare().await
            }
        }
    }

    fn millis(&self) -> i64 {
        i64::try_from(self.steps).unwrap()
    }

    /// A receipt by its age.
    fn receipt(&self, back: usize) -> Option<&(Receipt, Vec<Vec<u8>>)> {
        self.receipts.iter().rev().nth(back)
    }

    fn depth(&self) -> u64 {
        u64::try_from(self.model.raw(shard()).len()).unwrap()
    }

    /// Whether the entries would have to be gone through, and are too many for one step.
    fn unproven(&self) -> bool {
        let bound = u64::from(self.hot.redis.options().scan_bound);
        self.model.index(shard()) == Index::Doubtful && self.depth() > bound
    }

    fn same_amount<T: PartialEq + Debug>(
        &self,
        got: &Result<T, LiveRedisError>,
        want: &Result<T, MemoryQueueError>,
    ) -> Outcome {
        match (got, want) {
            (Err(LiveRedisError::Unproven(_)), _) if self.unproven() => {}
            (Ok(got), Ok(want)) if !self.unproven() => prop_assert_eq!(got, want),
            (
                Err(LiveRedisError::Damaged(_)),
                Err(MemoryQueueError::Unreadable { .. } | MemoryQueueError::Inconsistent { .. }),
            ) if !self.unproven() => {}
            (got, want) => prop_assert!(false, "{:?} is not {:?}", got, want),
        }
        Ok(())
    }

    /// Two gateways send at once: the order is Redis's to choose, and the model must agree with the one it chose.
    async fn burst(&mut self, calls: &[Call]) -> Outcome {
        let before = self.model.raw(shard()).len();
        let events: Vec<EncodedEvent> = calls.iter().map(|call| call.event(self.millis())).collect();
        self.steps += u64::try_from(events.len()).unwrap() - 1;
        let gateways = [&self.hot.redis, &self.other];
        let sent = events.iter().enumerate().map(|(n, event)| gateways[n % 2].enqueue(event));
        let got = futures_util::future::join_all(sent).await;
        let mut of_seq: BTreeMap<u64, usize> = BTreeMap::new();
        for (n, answer) in got.iter().enumerate() {
            if let Ok(Enqueued::Accepted { seq, .. }) = answer {
                prop_assert_eq!(of_seq.insert(*seq, n), None, "a number twice");
            }
        }
        prop_assert_eq!(self.hot.list().await.len(), before + of_seq.len());
        for n in of_seq.values() {
            prop_assert_eq!(
                &got[*n],
                &self.model.enqueue_now(&events[*n]).map_err(|error| panic!("{error}"))
            );
        }
        for (n, answer) in got.iter().enumerate().filter(|(n, _)| !of_seq.values().any(|done| done == n)) {
            match (answer, self.model.enqueue_now(&events[n])) {
                // Refused before another payload took its id.
                (Err(LiveRedisError::CounterFull(_)), Ok(Enqueued::Conflict)) => {}
                (got, want) => same_enqueued(got, &want)?,
            }
        }
        self.compare().await
    }

    /// `raw`: the entries that were peeked. Nothing else may be taken.
    async fn ack(&self, receipt: &Receipt, raw: &[Vec<u8>]) -> Outcome {
        let named = usize::try_from(receipt.entries) == Ok(raw.len());
        let same = named && self.model.raw(shard()).starts_with(raw);
        let got = self.hot.redis.ack(receipt).await.unwrap();
        prop_assert_eq!(got != Acked::Changed, same);
        prop_assert_eq!(got, self.model.ack_now(receipt));
        Ok(())
    }

    async fn reindex(&self) -> Outcome {
        let bound = self.hot.redis.options().scan_bound.into();
        let want = if self.unproven() {
            Ok(Reindexed::TooLong { depth: self.depth(), bound })
        } else {
            self.model.reindex_now(shard())
        };
        match (self.hot.redis.reindex(shard()).await, want) {
            (Ok(got), Ok(want)) => prop_assert_eq!(got, want),
            (Err(LiveRedisError::CounterFull(_)), Err(MemoryQueueError::CounterOverflow(_))) => {}
            (got, want) => prop_assert!(false, "{:?} is not {:?}", got, want),
        }
        Ok(())
    }

    async fn quarantine(&mut self, right: bool) -> Outcome {
        let list = self.model.raw(shard());
        let wrong = if right { None } else { list.get(1) };
        let Some(head) = wrong.or_else(|| list.first()) else { return Ok(()) };
        let note = OperatorNote { reason: "model".into(), at: now() };
        let got = self.hot.redis.quarantine(shard(), head, &note).await.unwrap();
        let want = self.model.quarantine_now(shard(), head).then(|| self.depth());
        prop_assert_eq!(got, want);
        if want.is_some() {
            self.aside.push(head.clone());
        }
        Ok(())
    }

    async fn restore(&mut self, item: usize) -> Outcome {
        let aside = self.hot.redis.quarantined(shard(), 100).await.unwrap();
        prop_assert_eq!(&aside.iter().map(|item| item.raw.clone()).collect::<Vec<_>>(), &self.aside);
        let Some(found) = aside.get(item) else { return Ok(()) };
        let got = self.hot.redis.restore(shard(), found).await.unwrap();
        self.model.restore_now(shard(), self.aside.remove(item));
        prop_assert_eq!(got, Some(self.depth()));
        Ok(())
    }

    async fn tamper(&self, foreign: Foreign) {
        let mut list: VecDeque<Vec<u8>> = self.model.raw(shard()).into();
        change(&mut list, foreign, self.millis());
        let key = self.hot.key("queue");
        let mut pipe = redis::pipe();
        pipe.atomic().del(&key).ignore();
        if !list.is_empty() {
            pipe.rpush(&key, list.iter().collect::<Vec<_>>()).ignore();
        }
        let () = pipe.query_async(&mut self.hot.raw.clone()).await.unwrap();
        self.model.tamper(shard(), |kept| *kept = list);
    }

    /// Every byte that the queue keeps, but the remembered ids, which answers show.
    async fn compare(&self) -> Outcome {
        prop_assert_eq!(self.hot.list().await, self.model.raw(shard()));
        let read = async |what: &str| -> BTreeMap<String, String> {
            self.hot.run(&[b"HGETALL", self.hot.key(what).as_bytes()]).await
        };
        let charges =
            SCOPES.map(|text| (text.to_owned(), self.model.hot(&text.parse::<ScopeRef>().unwrap())));
        let paid = charges.iter().filter(|(_, charge)| charge.paid_events > 0);
        let amounts = paid.clone().map(|(scope, charge)| (scope.clone(), charge.amount.picos().to_string()));
        prop_assert_eq!(read("hot").await, amounts.collect());
        let counts = paid.map(|(scope, charge)| (scope.clone(), charge.paid_events.to_string()));
        prop_assert_eq!(read("count").await, counts.collect());
        let starts: BTreeMap<_, _> = self
            .model
            .starts(shard())
            .iter()
            .map(|(start, amount)| (start.to_string(), amount.picos().to_string()))
            .collect();
        let members: Vec<String> =
            self.hot.run(&[b"ZRANGE", self.hot.key("since").as_bytes(), b"0", b"-1"]).await;
        prop_assert_eq!(members, starts.keys().cloned().collect::<Vec<_>>());
        prop_assert_eq!(read("since:amount").await, starts);
        let losses = self.hot.redis.losses(shard(), 1_000).await.unwrap();
        let losses = losses.iter().map(|loss| (loss.first, loss.last, loss.present));
        let known = self.model.losses(shard());
        prop_assert_eq!(
            losses.collect::<Vec<_>>(),
            known.iter().map(|loss| (loss.first, loss.last, loss.present)).collect::<Vec<_>>()
        );
        let peeked = self.hot.redis.peek(shard(), limit(1)).await.unwrap();
        prop_assert_eq!(peeked.index, self.model.index(shard()));
        let backlog = self.hot.redis.backlog(shard()).await.unwrap();
        let oldest = peeked.entries.first().and_then(|entry| entry.link).map(|link| link.queued.instant());
        if oldest.is_some() {
            prop_assert_eq!(backlog, Backlog { entries: self.depth(), oldest });
        }
        Ok(())
    }

    /// Takes everything off as a flusher and an operator would; nothing but ids and the place of the chain is left.
    async fn drain(&mut self) -> Outcome {
        while self.depth() > 0 {
            let peeked = self.hot.redis.peek(shard(), limit(100)).await.unwrap();
            prop_assert_eq!(&peeked, &self.model.peek_now(shard(), limit(100)));
            if let Some(receipt) = peeked.receipt() {
                let raw: Vec<_> = peeked.entries.iter().map(|entry| entry.raw().to_vec()).collect();
                self.ack(&receipt, &raw).await?;
            } else {
                let corrupt = matches!(peeked.stop, Some(Stop::Corrupt { position: 0, .. }));
                prop_assert!(corrupt, "{:?}", peeked.stop);
                self.quarantine(true).await?;
            }
        }
        for scope in SCOPES {
            prop_assert_eq!(self.hot.redis.pending(&scope.parse().unwrap()).await, Ok(Usd::ZERO));
        }
        self.compare().await?;
        self.end_with_nothing_but_the_chain().await
    }

    async fn end_with_nothing_but_the_chain(&mut self) -> Outcome {
        let last = Call::last().event(self.millis());
        let (got, want) = (self.hot.redis.enqueue(&last).await, self.model.enqueue_now(&last));
        same_enqueued(&got, &want)?;
        let receipt = self.hot.redis.peek(shard(), limit(1)).await.unwrap().receipt().unwrap();
        prop_assert_eq!(self.hot.redis.ack(&receipt).await, Ok(Acked::Done { depth: 0, short_counters: 0 }));
        let _ = self.model.ack_now(&receipt);
        let fields: Vec<String> = self.hot.run(&[b"HKEYS", self.hot.key("state").as_bytes()]).await;
        let kept = ["head", "next", "chain", "format", "shards", "settings", "settings_since"];
        prop_assert!(fields.iter().all(|field| kept.contains(&field.as_str())), "{:?}", fields);
        for key in self.hot.keys().await {
            let what = &key[self.hot.key("").len()..];
            prop_assert!(
                ["state", "quarantine", "lost"].contains(&what) || what.starts_with("seen:"),
                "{} is left",
                what
            );
        }
        Ok(())
    }
}

fn same_enqueued(
    got: &Result<Enqueued, LiveRedisError>,
    want: &Result<Enqueued, MemoryQueueError>,
) -> Outcome {
    match (got, want) {
        (Ok(got), Ok(want)) => prop_assert_eq!(got, want),
        (Err(LiveRedisError::CounterFull(_)), Err(MemoryQueueError::CounterOverflow(_))) => {}
        (got, want) => prop_assert!(false, "{:?} is not {:?}", got, want),
    }
    Ok(())
}
