//! The queue in Redis keeps the contract of `spend_queue::SpendQueue`, and holds what the model holds.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod common;

use common::{Hot, charged, event, limit, now, shard, team};
use live_redis::{CallError, LiveRedis, LiveRedisError, Options};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use spend_queue::{
    Acked, Enqueued, EventError, FieldProblem, MemoryQueue, QueueError, ScopeRef, ShardCount, SpendEvent,
    SpendQueue, Stop, Usd,
};

#[tokio::test]
async fn forty_tasks_that_send_one_request_id_make_one_entry() {
    let hot = Hot::shared().await;
    let mut race = tokio::task::JoinSet::new();
    for _ in 0..40 {
        let redis = hot.redis.clone();
        race.spawn(async move { redis.enqueue(&event("same", 5)).await.unwrap() });
    }
    let answers = race.join_all().await;
    assert_eq!(
        answers.iter().filter(|answer| **answer == Enqueued::Accepted { seq: 1, depth: 1 }).count(),
        1
    );
    assert_eq!(answers.iter().filter(|answer| **answer == Enqueued::Duplicate).count(), 39);
    assert_eq!(hot.list().await.len(), 1);
    assert_eq!(hot.redis.hot_spend(&team()).await, Usd::from_picos(5));
}

#[tokio::test]
async fn another_payload_under_a_known_request_id_is_a_conflict_and_the_first_stays() {
    let hot = Hot::shared().await;
    hot.redis.enqueue(&event("a", 5)).await.unwrap();
    let before = hot.list().await;
    assert_eq!(hot.redis.enqueue(&event("a", 6)).await, Ok(Enqueued::Conflict));
    assert_eq!(hot.list().await, before);
    assert_eq!(hot.redis.hot_spend(&team()).await, Usd::from_picos(5));
}

#[tokio::test]
async fn a_drained_queue_leaves_no_counter_and_remembers_its_ids() {
    let hot = Hot::shared().await;
    for id in ["a", "b"] {
        hot.redis.enqueue(&event(id, 5)).await.unwrap();
    }
    let batch = hot.redis.peek(shard(), limit(10)).await.unwrap();
    assert_eq!(batch.entries.iter().map(|entry| entry.link.unwrap().seq).collect::<Vec<_>>(), [1, 2]);
    let done = hot.redis.ack(&batch.receipt().unwrap()).await.unwrap();
    assert_eq!(done, Acked::Done { depth: 0, short_counters: 0 });
    for gone in ["queue", "hot", "count"] {
        let exists: bool = hot.run(&[b"EXISTS", hot.key(gone).as_bytes()]).await;
        assert!(!exists, "{gone}");
    }
    assert_eq!(hot.redis.enqueue(&event("a", 5)).await, Ok(Enqueued::Duplicate));
    assert_eq!(hot.redis.ack(&batch.receipt().unwrap()).await, Ok(Acked::Changed));
}

#[tokio::test]
async fn an_acknowledgement_of_a_diverged_tail_changes_nothing() {
    // After a fail-over that lost e2 and e3, the head is the same and the tail is another.
    for tail in [["x2", "x3"], ["x2", "e3"]] {
        let hot = Hot::shared().await;
        for id in ["e1", "e2", "e3"] {
            hot.redis.enqueue(&event(id, 5)).await.unwrap();
        }
        let committed = hot.redis.peek(shard(), limit(10)).await.unwrap().receipt().unwrap();
        let other = Hot::shared().await;
        for id in ["e1", tail[0], tail[1]] {
            other.redis.enqueue(&event(id, 5)).await.unwrap();
        }
        for key in ["queue", "state", "hot", "count"] {
            let dump: Vec<u8> = other.run(&[b"DUMP", other.key(key).as_bytes()]).await;
            let _: String = hot.run(&[b"RESTORE", hot.key(key).as_bytes(), b"0", &dump, b"REPLACE"]).await;
        }
        assert_eq!(hot.redis.ack(&committed).await, Ok(Acked::Changed));
        assert_eq!(hot.list().await, other.list().await);
        assert_eq!(hot.redis.hot_spend(&team()).await, Usd::from_picos(15));
    }
}

#[tokio::test]
async fn pushes_between_peek_and_acknowledgement_survive_it() {
    let hot = Hot::shared().await;
    hot.redis.enqueue(&event("a", 5)).await.unwrap();
    let batch = hot.redis.peek(shard(), limit(10)).await.unwrap();
    hot.redis.enqueue(&event("b", 7)).await.unwrap();
    let done = hot.redis.ack(&batch.receipt().unwrap()).await.unwrap();
    assert_eq!(done, Acked::Done { depth: 1, short_counters: 0 });
    assert_eq!(hot.redis.hot_spend(&team()).await, Usd::from_picos(7));
}

#[tokio::test]
async fn a_full_redis_refuses_events_and_still_drains() {
    let hot = Hot::private().await;
    hot.redis.enqueue(&event("a", 5)).await.unwrap();
    let batch = hot.redis.peek(shard(), limit(10)).await.unwrap();
    let _: String = hot.run(&[b"CONFIG", b"SET", b"maxmemory", b"1"]).await;
    let digest = hot.digest().await;
    let error = hot.redis.enqueue(&event("b", 5)).await.unwrap_err();
    assert!(matches!(error, LiveRedisError::Call(CallError::Unavailable(_))), "{error}");
    assert!(error.is_transient());
    assert_eq!(hot.digest().await, digest);
    let done = hot.redis.ack(&batch.receipt().unwrap()).await.unwrap();
    assert_eq!(done, Acked::Done { depth: 0, short_counters: 0 });
}

#[tokio::test]
async fn a_corrupt_entry_ends_the_batch_before_it() {
    let hot = Hot::shared().await;
    hot.redis.enqueue(&event("a", 5)).await.unwrap();
    hot.redis.enqueue(&event("b", 5)).await.unwrap();
    let _: String = hot.run(&[b"LSET", hot.key("queue").as_bytes(), b"1", b"\xff garbage"]).await;
    let batch = hot.redis.peek(shard(), limit(10)).await.unwrap();
    assert_eq!((batch.entries.len(), batch.depth), (1, 2));
    assert!(matches!(batch.stop, Some(Stop::Corrupt { position: 1, .. })), "{:?}", batch.stop);
}

#[tokio::test]
async fn a_peek_is_bounded_by_bytes_and_returns_at_least_one_entry() {
    let hot = Hot::shared().await;
    for n in 0..150 {
        let mut event = SpendEvent::new(format!("r{n}"), "m", vec![team()]);
        event.metadata.insert("m".into(), "x".repeat(60_000).into());
        hot.redis.enqueue_spend(&event, now()).await.unwrap();
    }
    let batch = hot.redis.peek(shard(), limit(10_000)).await.unwrap();
    let bytes: usize = batch.entries.iter().map(|entry| entry.raw().len()).sum();
    assert!(bytes <= spend_queue::MAX_PEEK_BYTES && bytes > spend_queue::MAX_PEEK_BYTES - 65_536, "{bytes}");
    assert_eq!(batch.depth, 150);
}

#[tokio::test]
async fn a_client_with_another_shard_count_is_refused() {
    let test = devstack::redis().unwrap().test();
    let prefix: live_redis::KeyPrefix = test.prefix().parse().unwrap();
    let one = LiveRedis::open_with(test.url(), Options::default().with_prefix(prefix.clone())).await.unwrap();
    one.enqueue(&event("a", 5)).await.unwrap();
    let shards = ShardCount::new(2).unwrap();
    let two = Options::default().with_prefix(prefix).with_shards(shards);
    let refused = LiveRedis::open_with(test.url(), two).await.err().unwrap();
    assert_eq!(refused.step, live_redis::Step::Options);
    assert!(refused.to_string().contains("has 1 shards, this client was set up for 2"), "{refused}");
}

#[tokio::test]
async fn an_invalid_event_is_refused_before_anything_is_sent() {
    let hot = Hot::shared().await;
    let refused = hot.redis.enqueue_spend(&SpendEvent::new("", "m", vec![team()]), now()).await.unwrap_err();
    let LiveRedisError::Event(EventError { field, problem: FieldProblem::Text(_) }) = refused else {
        panic!("{refused}")
    };
    assert_eq!(field, "request_id");
    let keys: Vec<String> = hot.run(&[b"KEYS", format!("{}:*", hot.prefix).as_bytes()]).await;
    assert_eq!(keys, Vec::<String>::new());
}

#[tokio::test]
async fn a_telemetry_read_answers_zero_when_it_cannot_be_read_and_counts_it() {
    let hot = Hot::shared().await;
    assert_eq!(hot.redis.hot_spend(&team()).await, Usd::ZERO);
    assert_eq!(hot.redis.degradations(), 0);
    for nonsense in [&b"12.5"[..], b"x", b"99999999999999999999"] {
        let _: i64 = hot.run(&[b"HSET", hot.key("hot").as_bytes(), b"team/t", nonsense]).await;
        assert_eq!(hot.redis.hot_spend(&team()).await, Usd::ZERO);
    }
    hot.redis.close();
    assert_eq!(hot.redis.hot_spend(&team()).await, Usd::ZERO);
    assert_eq!(hot.redis.degradations(), 4);
}

/// One thing that a gateway, a flusher or a foreign hand does.
#[derive(Debug, Clone)]
enum Act {
    Enqueue { id: u8, picos: Option<i64>, scopes: u8 },
    PeekAndAck { entries: u32 },
    PeekOnly { entries: u32 },
    AckOld,
    Push(&'static str),
    DropHead,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let picos = prop_oneof![Just(None), Just(Some(0)), (1..5_i64).prop_map(Some), Just(Some(i64::MAX / 2))];
    let act = prop_oneof![
        8 => (0..40_u8, picos, 1..8_u8).prop_map(|(id, picos, scopes)| Act::Enqueue { id, picos, scopes }),
        3 => (1..6_u32).prop_map(|entries| Act::PeekAndAck { entries }),
        2 => (1..6_u32).prop_map(|entries| Act::PeekOnly { entries }),
        2 => Just(Act::AckOld),
        1 => prop_oneof![Just("garbage"), Just("{}"), Just("")].prop_map(Act::Push),
        1 => Just(Act::DropHead),
    ];
    prop::collection::vec(act, 1..60)
}

#[test]
fn random_programs_leave_redis_and_the_model_in_the_same_state() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut runner = TestRunner::new(Config { cases: 120, failure_persistence: None, ..Config::default() });
    let steps = std::cell::Cell::new(0);
    runner
        .run(&acts(), |acts| {
            runtime.block_on(async {
                let hot = Hot::shared().await;
                let model = MemoryQueue::new(ShardCount::ONE);
                let mut old = None;
                for act in acts {
                    steps.set(steps.get() + 1);
                    step(&hot, &model, &mut old, act).await?;
                    prop_assert_eq!(hot.list().await, model.raw(shard()));
                    for scope in (0..3).map(scope) {
                        prop_assert_eq!(hot.redis.hot_spend(&scope).await, model.hot(&scope).amount);
                    }
                }
                prop_assert_eq!(hot.redis.degradations(), 0);
                Ok(())
            })
        })
        .unwrap();
    println!("{} steps compared with the model", steps.get());
}

fn scope(n: u8) -> ScopeRef {
    ScopeRef::new("s", n.to_string()).unwrap()
}

async fn step(
    hot: &Hot,
    model: &MemoryQueue,
    old: &mut Option<spend_queue::Receipt>,
    act: Act,
) -> Result<(), TestCaseError> {
    match act {
        Act::Enqueue { id, picos, scopes } => {
            let scopes = (0..3).filter(|bit| scopes & (1 << bit) != 0).map(scope).collect();
            let event = charged(&format!("r{id}"), picos, scopes);
            match (hot.redis.enqueue(&event).await, model.enqueue_now(&event)) {
                (Ok(got), Ok(want)) => prop_assert_eq!(got, want),
                (Err(LiveRedisError::CounterFull(_)), Err(_)) => {}
                (got, want) => prop_assert!(false, "{got:?} is not {want:?}"),
            }
        }
        Act::PeekAndAck { entries } | Act::PeekOnly { entries } => {
            let peeked = hot.redis.peek(shard(), limit(entries)).await.unwrap();
            prop_assert_eq!(&peeked, &model.peek_now(shard(), limit(entries)));
            *old = peeked.receipt();
            if matches!(act, Act::PeekAndAck { .. }) {
                acknowledge(hot, model, old.as_ref()).await?;
            }
        }
        Act::AckOld => acknowledge(hot, model, old.as_ref()).await?,
        Act::Push(raw) => {
            let _: u64 = hot.run(&[b"RPUSH", hot.key("queue").as_bytes(), raw.as_bytes()]).await;
            model.tamper(shard(), |list| list.push_back(raw.as_bytes().to_vec()));
        }
        Act::DropHead => {
            let _: Option<Vec<u8>> = hot.run(&[b"LPOP", hot.key("queue").as_bytes()]).await;
            model.tamper(shard(), |list| drop(list.pop_front()));
        }
    }
    Ok(())
}

async fn acknowledge(
    hot: &Hot,
    model: &MemoryQueue,
    receipt: Option<&spend_queue::Receipt>,
) -> Result<(), TestCaseError> {
    if let Some(receipt) = receipt {
        prop_assert_eq!(hot.redis.ack(receipt).await.unwrap(), model.ack_now(receipt));
    }
    Ok(())
}
