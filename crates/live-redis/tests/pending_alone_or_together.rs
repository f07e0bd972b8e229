//! Callers that read pending spend at once: each is told what it would be told alone, amount by amount.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod common;

use chrono::{DateTime, TimeDelta, Utc};
use common::{Hot, now};
use futures_util::future::join_all;
use live_redis::LiveRedisError;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use spend_queue::{PendingQuery, PendingSpend, ShardCount, SpendEvent, SpendQueue, Usd};

/// Some of them are never charged.
const SCOPES: [&str; 6] =
    ["organization/o", "organization/p", "team/t", "key/k", "s%2Ft/x", "organization/nobody"];

/// One call to be charged; the bits of `scopes` name which of the first five it charges.
#[derive(Debug, Clone)]
struct Call {
    owner: u8,
    picos: i64,
    scopes: u8,
    start: Option<i64>,
}

fn at(millis: i64) -> DateTime<Utc> {
    now() + TimeDelta::milliseconds(millis)
}

fn call() -> impl Strategy<Value = Call> {
    let picos = prop_oneof![4 => 0..9_i64, 2 => 1..i64::MAX / 64];
    (0..9_u8, picos, 1..32_u8, prop::option::of(-6..6_i64)).prop_map(|(owner, picos, scopes, start)| Call {
        owner,
        picos,
        scopes,
        start,
    })
}

fn query() -> impl Strategy<Value = PendingQuery> {
    let since = prop_oneof![8 => (-6..7_i64).prop_map(at), 1 => Just(DateTime::<Utc>::MAX_UTC)];
    prop_oneof![
        3 => prop::sample::select(&SCOPES[..]).prop_map(|text| PendingQuery::Scope(text.parse().unwrap())),
        3 => (prop::sample::select(vec!["o", "p", "nobody"]), since)
            .prop_map(|(id, since)| PendingQuery::Organization { id: id.to_owned(), since }),
        2 => prop::sample::select(vec!["k", "other"]).prop_map(|id| PendingQuery::Key(id.to_owned())),
    ]
}

/// How a deployment is set up, and whether its index of pending spend is to be trusted.
#[derive(Debug, Clone)]
struct Setup {
    connections: usize,
    shards: u16,
    since_bound: u32,
    doubtful: Vec<bool>,
}

fn setup() -> impl Strategy<Value = Setup> {
    // Seldom so small a bound that some cannot be told.
    let since_bound = prop_oneof![3 => Just(512_u32), 1 => Just(100), 1 => 1..8_u32];
    let doubtful = prop::collection::vec(prop::bool::weighted(0.4), 3);
    (any::<bool>(), 1..4_u16, since_bound, doubtful).prop_map(|(many, shards, since_bound, doubtful)| Setup {
        connections: if many { 4 } else { 1 },
        shards,
        since_bound,
        doubtful,
    })
}

async fn single(hot: &Hot, query: &PendingQuery) -> Result<Usd, LiveRedisError> {
    match query {
        PendingQuery::Scope(scope) => hot.redis.pending(scope).await,
        PendingQuery::Organization { id, since } => hot.redis.pending_since(id, *since).await,
        PendingQuery::Key(id) => hot.redis.pending_key(id).await,
    }
}

async fn compare(
    setup: Setup,
    calls: Vec<Call>,
    callers: Vec<Vec<PendingQuery>>,
) -> Result<(), TestCaseError> {
    let shards = ShardCount::new(setup.shards).unwrap();
    let hot = Hot::shared_with(|options| {
        let options = options.with_hot_connections(setup.connections).with_shards(shards);
        options.with_since_bound(setup.since_bound)
    })
    .await;
    let enqueued = calls.iter().enumerate().map(|(nth, call)| {
        let charged = SCOPES.iter().take(5).enumerate().filter(|(bit, _)| call.scopes & (1 << bit) != 0);
        let charged = charged.map(|(_, text)| text.parse().unwrap()).collect();
        let mut event = SpendEvent::new(format!("r{nth}"), "m", charged);
        event.cost = Some(Usd::from_picos(call.picos.into()));
        event.organization_id = Some(format!("owner{}", call.owner));
        event.started_at = call.start.map(at);
        let event = event.encode(now()).unwrap();
        let redis = hot.redis.clone();
        async move { redis.enqueue(&event).await.unwrap() }
    });
    join_all(enqueued).await;
    for (shard, doubtful) in shards.iter().zip(&setup.doubtful) {
        if *doubtful {
            let key = format!("{}:{{{shard}}}:state", hot.prefix).into_bytes();
            let _: u64 = hot.run(&[b"HSET", &key, b"doubt", b"test"]).await;
        }
    }
    // One thread: calls go out in the order in which they are spawned, none after the answer of another.
    let tasks = callers.iter().cloned().map(|queries| {
        let redis = hot.redis.clone();
        tokio::spawn(async move { redis.pending_all(&queries).await })
    });
    let together = join_all(tasks.collect::<Vec<_>>()).await;
    for (queries, together) in callers.iter().zip(together) {
        let mut alone = Vec::new();
        for query in queries {
            alone.push(single(&hot, query).await);
        }
        match together.unwrap() {
            Ok(amounts) => prop_assert_eq!(amounts.into_iter().map(Ok).collect::<Vec<_>>(), alone),
            Err(error) => {
                prop_assert!(alone.contains(&Err(error.clone())), "{:?} is not in {:?}", error, alone);
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn callers_that_read_at_once_are_each_told_what_they_would_be_told_alone(
        setup in setup(),
        calls in prop::collection::vec(call(), 0..40),
        callers in prop::collection::vec(prop::collection::vec(query(), 0..10), 1..12),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(compare(setup, calls, callers))?;
    }
}
