//! Several amounts asked for at once: what single reads and the model of the queue say, in one script call a shard.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod common;

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use common::{Hot, charged, now, shard, team};
use live_redis::LiveRedisError;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use spend_queue::{
    EncodedEvent, MemoryQueue, PendingQuery, PendingSpend, ScopeRef, Shard, ShardCount, SpendEvent,
    SpendQueue, Usd,
};

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

/// What another hand does to the list of a shard before it is read.
#[derive(Debug, Clone, Copy)]
enum Trouble {
    None,
    Doubt,
    RepeatLast,
    TakeFirst,
    Garbage,
}

fn at(millis: i64) -> DateTime<Utc> {
    now() + TimeDelta::milliseconds(millis)
}

fn call() -> impl Strategy<Value = Call> {
    let picos = prop_oneof![4 => 0..9_i64, 2 => 1..i64::MAX / 64, 1 => Just((1 << 53) + 1)];
    (0..9_u8, picos, 1..32_u8, proptest::option::of(-3..3_i64))
        .prop_map(|(owner, picos, scopes, start)| Call { owner, picos, scopes, start })
}

fn query() -> impl Strategy<Value = PendingQuery> {
    let since = prop_oneof![8 => (-3..4_i64).prop_map(at), 1 => Just(DateTime::<Utc>::MAX_UTC)];
    prop_oneof![
        3 => prop::sample::select(&SCOPES[..]).prop_map(|text| PendingQuery::Scope(text.parse().unwrap())),
        3 => (prop::sample::select(vec!["o", "p", "nobody"]), since)
            .prop_map(|(id, since)| PendingQuery::Organization { id: id.to_owned(), since }),
        1 => prop::sample::select(vec!["k", "other"]).prop_map(|id| PendingQuery::Key(id.to_owned())),
    ]
}

fn trouble() -> impl Strategy<Value = Trouble> {
    use Trouble::{Doubt, Garbage, None, RepeatLast, TakeFirst};
    prop_oneof![5 => Just(None), 3 => Just(Doubt), 2 => Just(RepeatLast), 1 => Just(TakeFirst), 1 => Just(Garbage)]
}

fn event(nth: usize, call: &Call) -> EncodedEvent {
    let scopes = SCOPES.iter().take(5).enumerate().filter(|(bit, _)| call.scopes & (1 << bit) != 0);
    let scopes = scopes.map(|(_, text)| text.parse().unwrap()).collect();
    let mut event = SpendEvent::new(format!("r{nth}"), "m", scopes);
    event.cost = Some(Usd::from_picos(call.picos.into()));
    event.organization_id = Some(format!("owner{}", call.owner));
    event.started_at = call.start.map(at);
    event.encode(now()).unwrap()
}

async fn inflict(hot: &Hot, model: &MemoryQueue, shard: Shard, trouble: Trouble) {
    let key = |what: &str| format!("{}:{{{shard}}}:{what}", hot.prefix).into_bytes();
    let mut list = model.raw(shard);
    match trouble {
        Trouble::None => return,
        Trouble::Doubt => {
            let _: u64 = hot.run(&[b"HSET", &key("state"), b"doubt", b"test"]).await;
            return;
        }
        Trouble::RepeatLast => list.extend(list.last().cloned()),
        Trouble::TakeFirst => drop(list.drain(..list.len().min(1))),
        Trouble::Garbage => list.push(b"garbage".to_vec()),
    }
    let _: u64 = hot.run(&[b"DEL", &key("queue")]).await;
    for entry in &list {
        let _: u64 = hot.run(&[b"RPUSH", &key("queue"), entry]).await;
    }
    model.tamper(shard, |kept| *kept = list.into());
}

/// One after the other.
async fn singly(hot: &Hot, queries: &[PendingQuery]) -> Vec<Result<Usd, LiveRedisError>> {
    let mut amounts = Vec::new();
    for query in queries {
        amounts.push(match query {
            PendingQuery::Scope(scope) => hot.redis.pending(scope).await,
            PendingQuery::Organization { id, since } => hot.redis.pending_since(id, *since).await,
            PendingQuery::Key(id) => hot.redis.pending_key(id).await,
        });
    }
    amounts
}

async fn compare(
    shards: ShardCount,
    calls: Vec<Call>,
    troubles: Vec<(usize, Trouble)>,
    queries: Vec<PendingQuery>,
) -> Result<(), TestCaseError> {
    let hot = Hot::shared_with(|options| options.with_shards(shards)).await;
    let model = MemoryQueue::new(shards);
    for (nth, call) in calls.iter().enumerate() {
        let event = event(nth, call);
        prop_assert_eq!(hot.redis.enqueue(&event).await.unwrap(), model.enqueue_now(&event).unwrap());
    }
    let sources = hot.redis.sources();
    for (place, trouble) in troubles {
        inflict(&hot, &model, sources[place % sources.len()], trouble).await;
    }
    let (together, singly) = (hot.redis.pending_all(&queries).await, singly(&hot, &queries).await);
    match (together, model.pending_all(&queries).await) {
        (Ok(together), Ok(expected)) => {
            prop_assert_eq!(&together, &expected);
            prop_assert_eq!(singly.into_iter().collect::<Result<Vec<_>, _>>(), Ok(together));
        }
        (Err(LiveRedisError::Damaged(_)), Err(_)) => {
            prop_assert!(singly.iter().any(Result::is_err), "{:?}", singly);
        }
        (together, expected) => prop_assert!(false, "{:?} is not {:?}", together, expected),
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn amounts_asked_for_together_are_what_single_reads_and_the_model_say(
        shards in 1..5_u16,
        calls in prop::collection::vec(call(), 0..30),
        troubles in prop::collection::vec((0..4_usize, trouble()), 0..3),
        queries in prop::collection::vec(query(), 1..24),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(compare(ShardCount::new(shards).unwrap(), calls, troubles, queries))?;
    }
}

/// What a path of four budgets with five beside it asks for.
fn of_a_path() -> Vec<PendingQuery> {
    let scope = |text: &str| PendingQuery::Scope(text.parse().unwrap());
    let mut queries = vec![
        PendingQuery::Organization { id: "o".into(), since: now() },
        scope("team/t"),
        scope("user/u"),
        PendingQuery::Key("k".into()),
    ];
    queries.extend((0..5).map(|n| scope(&format!("team/{n}"))));
    queries
}

/// How often the server ran each command since the last time.
async fn commands(hot: &Hot) -> BTreeMap<String, u64> {
    let info: String = hot.run(&[b"INFO", b"commandstats"]).await;
    let _: String = hot.run(&[b"CONFIG", b"RESETSTAT"]).await;
    let lines = info.lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split_once(":calls="));
    lines.map(|(name, rest)| (name.to_owned(), rest.split(',').next().unwrap().parse().unwrap())).collect()
}

#[tokio::test]
async fn nine_amounts_cost_one_script_call_and_one_proof() {
    let hot = Hot::private().await;
    let entries = 250_u64;
    for n in 0..entries {
        hot.redis.enqueue(&charged(&format!("r{n}"), Some(1), vec![team()])).await.unwrap();
    }
    let expected: Vec<_> = [0, 250, 0, 0, 0, 0, 0, 0, 0].map(Usd::from_picos).into();
    let queries = of_a_path();
    assert_eq!(hot.redis.pending_all(&queries).await.as_ref(), Ok(&expected));
    commands(&hot).await;
    assert_eq!(hot.redis.pending_all(&queries).await.as_ref(), Ok(&expected));
    let once = commands(&hot).await;
    for (command, calls) in [("evalsha", 1), ("llen", 1), ("lindex", 2), ("hmget", 3), ("zlexcount", 1)] {
        assert_eq!(once.get(command), Some(&calls), "{command} of {once:?}");
    }
    assert!(!once.contains_key("lrange"), "{once:?}");

    let _: u64 = hot.run(&[b"HSET", hot.key("state").as_bytes(), b"doubt", b"test"]).await;
    commands(&hot).await;
    assert_eq!(hot.redis.pending_all(&queries).await.as_ref(), Ok(&expected));
    let once = commands(&hot).await;
    for (command, calls) in [("evalsha", 1), ("lrange", entries.div_ceil(100))] {
        assert_eq!(once.get(command), Some(&calls), "{command} of {once:?}");
    }
}

#[tokio::test]
async fn more_than_one_call_takes_are_read_by_several_and_none_is_lost() {
    let hot = Hot::private().await;
    for n in 0..40_i64 {
        let scopes = vec![ScopeRef::new("organization", format!("o{n}")).unwrap()];
        hot.redis.enqueue(&charged(&format!("r{n}"), Some(n + 1), scopes)).await.unwrap();
    }
    for (times, with_instant, calls) in
        [(0, false, None), (512, false, Some(1)), (1_100, false, Some(3)), (40, true, Some(40))]
    {
        let asked: Vec<_> = (0..times).map(|n| n * 7 % 45).collect();
        let queries: Vec<_> = asked
            .iter()
            .map(|n| match with_instant {
                true => PendingQuery::Organization { id: format!("o{n}"), since: now() },
                false => PendingQuery::Scope(ScopeRef::new("organization", format!("o{n}")).unwrap()),
            })
            .collect();
        let expected =
            asked.iter().map(|&n| Usd::from_picos(if n < 40 { n + 1 } else { 0 })).collect::<Vec<_>>();
        hot.redis.pending(&team()).await.unwrap();
        commands(&hot).await;
        assert_eq!(hot.redis.pending_all(&queries).await, Ok(expected));
        assert_eq!(commands(&hot).await.get("evalsha").copied(), calls, "{times} queries");
    }
}

#[tokio::test]
async fn what_one_query_cannot_be_told_fails_the_call_and_names_its_scope() {
    let hot = Hot::shared().await;
    hot.redis.enqueue(&charged("a", Some(5), vec![team(), "user/u".parse().unwrap()])).await.unwrap();
    let _: u64 = hot.run(&[b"HSET", hot.key("hot").as_bytes(), b"user/u", b"-5"]).await;
    let error = hot.redis.pending_all(&of_a_path()).await.unwrap_err();
    assert!(matches!(error, LiveRedisError::Damaged(_)) && error.to_string().contains("user/u"), "{error}");
    let others: Vec<_> = of_a_path()
        .into_iter()
        .filter(|query| *query != PendingQuery::Scope("user/u".parse().unwrap()))
        .collect();
    let expected: Vec<_> = [0, 5, 0, 0, 0, 0, 0, 0].map(Usd::from_picos).into();
    assert_eq!(hot.redis.pending_all(&others).await, Ok(expected));
    let _: u64 = hot.run(&[b"RPUSH", hot.key("queue").as_bytes(), b"garbage"]).await;
    let error = hot.redis.pending_all(&others).await.unwrap_err();
    assert!(matches!(error, LiveRedisError::Damaged(_)) && error.to_string().contains("entry 1"), "{error}");
}

#[tokio::test]
async fn a_doubtful_queue_above_the_bound_is_not_gone_through_for_any_number_of_queries() {
    let hot = Hot::shared_with(|options| options.with_scan_bound(2)).await;
    for n in 0..3 {
        hot.redis.enqueue(&charged(&format!("r{n}"), Some(1), vec![team()])).await.unwrap();
    }
    let _: u64 = hot.run(&[b"HSET", hot.key("state").as_bytes(), b"doubt", b"test"]).await;
    let error = hot.redis.pending_all(&of_a_path()).await.unwrap_err();
    assert!(matches!(error, LiveRedisError::Unproven(_)), "{error}");
    let receipt = hot.redis.peek(shard(), common::limit(1)).await.unwrap().receipt().unwrap();
    hot.redis.ack(&receipt).await.unwrap();
    assert_eq!(hot.redis.pending_all(&of_a_path()).await.unwrap()[1], Usd::from_picos(2));
}

/// So many paid events of organization `o`, each in a millisecond of its own, the last one second before `now`.
async fn started_before(hot: &Hot, many: i64) {
    let events = (0..many).map(|n| {
        let mut event = SpendEvent::new(format!("r{n}"), "m", vec!["organization/o".parse().unwrap()]);
        event.cost = Some(Usd::from_picos(1));
        event.started_at = Some(at(n - many - 999));
        event.encode(now()).unwrap()
    });
    let events: Vec<_> = events.collect();
    for events in events.chunks(500) {
        futures_util::future::try_join_all(events.iter().map(|event| hot.redis.enqueue(event)))
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn more_starts_before_an_instant_than_the_bound_are_counted_and_not_read() {
    let hot = Hot::private().await;
    started_before(&hot, 5_000).await;
    let error = hot.redis.pending_since("o", now()).await.unwrap_err();
    assert!(matches!(error, LiveRedisError::Unproven(_)) && spend_queue::QueueError::is_transient(&error));
    for said in ["organization/o", "5000", "512", "settling"] {
        assert!(error.to_string().contains(said), "{error}");
    }
    commands(&hot).await;
    assert_eq!(hot.redis.pending_all(&of_a_path()).await, Err(error));
    let once = commands(&hot).await;
    assert_eq!((once.get("zlexcount"), once.get("zrangebylex")), (Some(&1), None), "{once:?}");

    // Whoever asks for less, is told: at the bound, and without an instant.
    let at_bound = at(-5_000 - 999 + 512);
    assert_eq!(hot.redis.pending_since("o", at_bound).await, Ok(Usd::from_picos(5_000 - 512)));
    assert!(hot.redis.pending_since("o", at_bound + TimeDelta::milliseconds(1)).await.is_err());
    assert_eq!(hot.redis.pending(&"organization/o".parse().unwrap()).await, Ok(Usd::from_picos(5_000)));
    let patient = hot.another(|options| options.with_since_bound(5_000)).await;
    assert_eq!(patient.pending_since("o", now()).await, Ok(Usd::ZERO));

    // Settling helps.
    let receipt = hot.redis.peek(shard(), common::limit(4_500)).await.unwrap().receipt().unwrap();
    hot.redis.ack(&receipt).await.unwrap();
    assert_eq!(hot.redis.pending_since("o", now()).await, Ok(Usd::ZERO));
}
