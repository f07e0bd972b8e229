//! Events that are enqueued at once: each is told, and charges, what it would alone.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod common;

use std::collections::BTreeMap;

use common::{Hot, limit, now};
use futures_util::future::join_all;
use live_redis::{LiveRedis, LiveRedisError};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestCaseError;
use serde_json::json;
use spend_queue::{EncodedEvent, Enqueued, ShardCount, SpendEvent, SpendQueue, Usd};

/// Scopes that events charge. The last two refuse who pays: one counter is full, the other is not what a script writes.
const SCOPES: [&str; 7] =
    ["organization/o", "team/t", "key/k", "key/k%2F2", "user/u", "team/full", "team/torn"];
/// A counter with room for [`ROOM`] picodollars.
const BRIM: &str = "team/brim";
const ROOM: usize = 3;

/// Whose shard.
const OWNERS: u8 = 4;

/// One event. Few ids, so that many conflict.
#[derive(Debug, Clone)]
struct Call {
    id: u8,
    owner: u8,
    /// `None` is unpriced.
    picos: Option<i64>,
    /// Bits: which of [`SCOPES`] it charges.
    scopes: u8,
    started: Option<i64>,
    bytes: usize,
    /// It charges [`BRIM`] one picodollar and nothing else, under an id of its own.
    brim: bool,
}

fn call() -> impl Strategy<Value = Call> {
    let picos = prop_oneof![1 => Just(None), 1 => Just(Some(0)), 5 => (1..9_i64).prop_map(Some), 2 => (1..i64::MAX >> 10).prop_map(Some)];
    // Seldom those that refuse.
    let scopes = prop_oneof![5 => 1..32_u8, 1 => 32..128_u8];
    let bytes = prop_oneof![9 => 0..40_usize, 2 => 100..3_000_usize, 1 => 30_000..64_000_usize];
    let rest = (prop::option::of(-3..3_i64), bytes, prop::bool::weighted(0.1));
    (0..30_u8, 0..OWNERS, picos, scopes, rest).prop_map(
        |(id, owner, picos, scopes, (started, bytes, brim))| Call {
            id,
            owner,
            picos,
            scopes,
            started,
            bytes,
            brim,
        },
    )
}

fn event(nth: usize, call: &Call) -> EncodedEvent {
    let id = if call.brim { format!("brim{nth}") } else { format!("r{}", call.id) };
    let charged = SCOPES.iter().enumerate().filter(|(bit, _)| call.scopes & (1 << bit) != 0);
    let charged: Vec<_> = charged.map(|(_, text)| text.parse().unwrap()).collect();
    let (owner, charged, picos) = match call.brim {
        true => (0, vec![BRIM.parse().unwrap()], Some(1)),
        false => (call.owner, charged, call.picos),
    };
    let mut event = SpendEvent::new(id, "m", charged);
    event.organization_id = Some(format!("owner{owner}"));
    event.cost = picos.map(|picos| Usd::from_picos(picos.into()));
    event.started_at = call.started.map(|millis| now() + chrono::TimeDelta::milliseconds(millis));
    event.metadata.insert("padding".into(), json!("x".repeat(call.bytes)));
    event.encode(now()).unwrap()
}

/// Fills what is to be full and breaks what is to be broken, wherever an owner's events go.
async fn prepare(hot: &Hot, shards: ShardCount) {
    for owner in 0..OWNERS {
        for (scope, picos) in [("team/full", i64::MAX), (BRIM, i64::MAX - i64::try_from(ROOM).unwrap())] {
            let mut event = SpendEvent::new(format!("{scope}{owner}"), "m", vec![scope.parse().unwrap()]);
            event.organization_id = Some(format!("owner{owner}"));
            event.cost = Some(Usd::from_picos(picos.into()));
            // Another owner of that shard may have filled it.
            let filled = hot.redis.enqueue(&event.encode(now()).unwrap()).await;
            assert!(!filled.is_err_and(|error| !error.to_string().contains(scope)));
        }
    }
    for shard in shards.iter() {
        let key = |what: &str| format!("{}:{{{shard}}}:{what}", hot.prefix).into_bytes();
        if hot.run::<u64>(&[b"LLEN", &key("queue")]).await > 0 {
            let _: u64 = hot.run(&[b"HSET", &key("hot"), b"team/torn", b"-5"]).await;
        }
    }
}

/// What came of all events; of those for the brim only how many, since it depends on their order which.
#[derive(Debug, PartialEq)]
struct Outcome {
    answers: Vec<Option<Result<&'static str, LiveRedisError>>>,
    brim: usize,
    /// Numbers and lengths that were told, by shard.
    numbers: BTreeMap<u16, Vec<(u64, u64)>>,
    /// Entries, by shard: the same, in any order.
    queued: BTreeMap<u16, Vec<String>>,
    /// Counters and state.
    hashes: BTreeMap<String, BTreeMap<String, String>>,
}

async fn outcome(
    (hot, shards): (&Hot, ShardCount),
    calls: &[Call],
    events: &[EncodedEvent],
    answers: Vec<Result<Enqueued, LiveRedisError>>,
) -> Outcome {
    let (mut told, mut brim, mut numbers) = (Vec::new(), 0, BTreeMap::<_, Vec<_>>::new());
    for ((call, event), answer) in calls.iter().zip(events).zip(answers) {
        if let Ok(Enqueued::Accepted { seq, depth }) = answer {
            numbers.entry(shards.shard_of(event.partition()).index()).or_default().push((seq, depth));
        }
        brim += usize::from(call.brim && matches!(answer, Ok(Enqueued::Accepted { .. })));
        let word = answer.map(|answer| match answer {
            Enqueued::Accepted { .. } => "accepted",
            Enqueued::Duplicate => "duplicate",
            Enqueued::Conflict => "conflict",
        });
        told.push((!call.brim).then_some(word));
    }
    numbers.values_mut().for_each(|numbers| numbers.sort_unstable());
    let (mut queued, mut hashes) = (BTreeMap::new(), BTreeMap::new());
    for shard in shards.iter() {
        let peeked = hot.redis.peek_logs(shard, limit(10_000)).await.unwrap();
        let entries = peeked.entries.iter().filter(|entry| !entry.event.request_id.starts_with("brim"));
        let mut entries: Vec<_> = entries.map(|entry| format!("{:?}", entry.event)).collect();
        entries.sort_unstable();
        queued.insert(shard.index(), entries);
        for what in ["hot", "count", "since:amount", "state"] {
            let key = format!("{}:{{{shard}}}:{what}", hot.prefix);
            let mut fields: BTreeMap<String, String> = hot.run(&[b"HGETALL", key.as_bytes()]).await;
            // It depends on the order.
            fields.remove("chain");
            hashes.insert(format!("{shard} {what}"), fields);
        }
    }
    Outcome { answers: told, brim, numbers, queued, hashes }
}

async fn enqueue(redis: LiveRedis, event: EncodedEvent) -> Result<Enqueued, LiveRedisError> {
    redis.enqueue(&event).await
}

async fn compare(
    connections: usize,
    shards: u16,
    calls: Vec<Call>,
    events: Vec<EncodedEvent>,
) -> Result<(), TestCaseError> {
    let shards = ShardCount::new(shards).unwrap();
    let open = |most| {
        Hot::shared_with(move |options| {
            options.with_hot_connections(connections).with_shards(shards).with_micro_batch(most)
        })
    };
    let (together, alone) = (open(64).await, open(1).await);
    prepare(&together, shards).await;
    prepare(&alone, shards).await;
    // One thread: tasks start, and wait in their lane, in the order in which they are spawned.
    let tasks = events.iter().cloned().map(|event| tokio::spawn(enqueue(together.redis.clone(), event)));
    let answers = join_all(tasks.collect::<Vec<_>>()).await.into_iter().map(Result::unwrap).collect();
    let got = outcome((&together, shards), &calls, &events, answers).await;
    let mut answers = Vec::new();
    for event in &events {
        answers.push(alone.redis.enqueue(event).await);
    }
    let expected = outcome((&alone, shards), &calls, &events, answers).await;
    prop_assert_eq!(got, expected);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn unlike_events_at_once_are_each_told_and_charge_what_they_would_alone(
        many in any::<bool>(),
        shards in 1..4_u16,
        calls in prop::collection::vec((call(), prop::option::weighted(0.25, any::<Index>())), 1..120),
    ) {
        let (mut made, mut events) = (Vec::new(), Vec::new());
        for (nth, (call, repeated)) in calls.into_iter().enumerate() {
            let (call, event) = match repeated.filter(|_| nth > 0).map(|index| index.index(nth)) {
                Some(earlier) => (Call::clone(&made[earlier]), EncodedEvent::clone(&events[earlier])),
                None => {
                    let event = event(nth, &call);
                    (call, event)
                }
            };
            made.push(call);
            events.push(event);
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(compare(if many { 4 } else { 1 }, shards, made, events))?;
    }
}
