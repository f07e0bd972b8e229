//! What tells that the flusher does not keep up.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod common;

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use common::{Hot, limit, now, shard, team};
use live_redis::{Backlog, OlderQueue, Pressure, Watermarks};
use spend_queue::{EncodedEvent, Shard, ShardCount, SpendEvent, SpendQueue};

/// Asks Redis each time.
const FRESH: Watermarks = Watermarks { entries: 3, age: Duration::from_secs(10), freshness: Duration::ZERO };

fn ready(id: &str, at: DateTime<Utc>) -> EncodedEvent {
    let mut event = SpendEvent::new(id, "m", vec![team()]);
    event.organization_id = Some(id.into());
    event.encode(at).unwrap()
}

fn later(millis: i64) -> DateTime<Utc> {
    now() + TimeDelta::milliseconds(millis)
}

#[tokio::test]
async fn a_backlog_is_its_length_and_when_its_head_was_made_ready() {
    let hot = Hot::shared().await;
    assert_eq!(hot.redis.backlog(shard()).await, Ok(Backlog { entries: 0, oldest: None }));
    for (n, millis) in [(1, 5), (2, 0), (3, 9)] {
        hot.redis.enqueue(&ready(&n.to_string(), later(millis))).await.unwrap();
        let backlog = hot.redis.backlog(shard()).await.unwrap();
        assert_eq!(
            backlog,
            Backlog { entries: n, oldest: Some(later(5)) },
            "the head counts, not the earliest"
        );
    }
    let head = hot.redis.peek(shard(), limit(1)).await.unwrap();
    assert_eq!(head.oldest().map(|at| at.instant()), Some(later(5)));
    hot.redis.ack(&head.receipt().unwrap()).await.unwrap();
    assert_eq!(hot.redis.backlog(shard()).await, Ok(Backlog { entries: 2, oldest: Some(later(0)) }));
    for foreign in ["", "garbage", "{}", "{\"seq\":1,\"chain\":\"00\",\"queued\":x,", "\u{0}"] {
        let _: u64 = hot.run(&[b"LPUSH", hot.key("queue").as_bytes(), foreign.as_bytes()]).await;
        let backlog = hot.redis.backlog(shard()).await.unwrap();
        assert_eq!(backlog.oldest, None, "{foreign:?} does not say");
    }
    assert_eq!(hot.redis.backlog(shard()).await.unwrap().entries, 7);
}

#[tokio::test]
async fn an_age_is_never_negative() {
    let backlog = Backlog { entries: 1, oldest: Some(later(500)) };
    assert_eq!(backlog.age(later(1_500)), Duration::from_secs(1));
    assert_eq!(backlog.age(now()), Duration::ZERO, "a host whose clock is behind");
    assert_eq!(Backlog::default().age(DateTime::<Utc>::MAX_UTC), Duration::ZERO);
    let extreme = Backlog { entries: 1, oldest: Some(DateTime::<Utc>::UNIX_EPOCH) };
    assert!(extreme.age(DateTime::<Utc>::MAX_UTC) > Duration::from_secs(1));
}

#[tokio::test]
async fn pressure_is_high_from_either_watermark_on() {
    let hot = Hot::shared().await;
    let pressure = async |millis| hot.redis.pressure(&FRESH, later(millis)).await.unwrap();
    assert_eq!(pressure(0).await, Pressure { entries: 0, age: Duration::ZERO, high: false });
    hot.redis.enqueue(&ready("a", now())).await.unwrap();
    let age = Duration::from_millis(9_999);
    assert_eq!(pressure(9_999).await, Pressure { entries: 1, age, high: false });
    assert_eq!(pressure(10_000).await, Pressure { entries: 1, age: Duration::from_secs(10), high: true });
    assert_eq!(pressure(-5).await, Pressure { entries: 1, age: Duration::ZERO, high: false });
    hot.redis.enqueue(&ready("b", now())).await.unwrap();
    assert!(!pressure(0).await.high);
    hot.redis.enqueue(&ready("c", now())).await.unwrap();
    assert_eq!(pressure(0).await, Pressure { entries: 3, age: Duration::ZERO, high: true });
    let all = hot.redis.peek(shard(), limit(10)).await.unwrap().receipt().unwrap();
    hot.redis.ack(&all).await.unwrap();
    assert_eq!(pressure(60_000).await, Pressure { entries: 0, age: Duration::ZERO, high: false });
}

#[tokio::test]
async fn pressure_adds_all_shards_and_the_older_queue_and_takes_the_oldest_of_all() {
    let hot = Hot::private_with(|options| {
        options
            .with_shards(ShardCount::new(4).unwrap())
            .with_older_queue(OlderQueue::new("xhub".parse().unwrap()))
    })
    .await;
    for n in 0..20 {
        hot.redis.enqueue(&ready(&n.to_string(), later(i64::from(n)))).await.unwrap();
    }
    let _: u64 = hot.run(&[b"RPUSH", b"xhub:spendlog", b"{\"request_id\":\"old\"}"]).await;
    let pressure = hot.redis.pressure(&FRESH, later(1_000)).await.unwrap();
    assert_eq!(pressure, Pressure { entries: 21, age: Duration::from_secs(1), high: true });
    assert_eq!(hot.redis.backlog(Shard::OLDER).await, Ok(Backlog { entries: 1, oldest: None }));
}

/// How many scripts the server has run since the last question.
async fn scripts(hot: &Hot) -> u64 {
    let stats: String = hot.run(&[b"INFO", b"commandstats"]).await;
    let _: String = hot.run(&[b"CONFIG", b"RESETSTAT"]).await;
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    line.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_read_answers_everybody_who_asks_meanwhile() {
    let hot = Hot::private().await;
    hot.redis.enqueue(&ready("a", now())).await.unwrap();
    let marks = Watermarks { freshness: Duration::from_secs(600), ..FRESH };
    hot.redis.backlog(shard()).await.unwrap();
    scripts(&hot).await;
    let mut race = tokio::task::JoinSet::new();
    for _ in 0..200 {
        let redis = hot.redis.clone();
        race.spawn(async move { redis.pressure(&marks, now()).await.unwrap().entries });
    }
    assert_eq!(race.join_all().await, vec![1; 200]);
    assert_eq!(scripts(&hot).await, 1);
    hot.redis.enqueue(&ready("b", now())).await.unwrap();
    scripts(&hot).await;
    assert_eq!(hot.redis.pressure(&marks, now()).await.unwrap().entries, 1, "what was read is still fresh");
    assert_eq!(scripts(&hot).await, 0);
    assert_eq!(
        hot.redis.pressure(&FRESH, now()).await.unwrap().entries,
        2,
        "unless the caller wants it fresher"
    );
    assert_eq!(scripts(&hot).await, 1);
    let other = hot.another(|options| options).await;
    assert_eq!(other.pressure(&marks, now()).await.unwrap().entries, 2, "another host reads for itself");
}

#[tokio::test]
async fn pressure_that_cannot_be_read_is_an_error_and_not_the_last_answer() {
    let hot = Hot::private().await;
    hot.redis.pressure(&FRESH, now()).await.unwrap();
    hot.redis.close();
    assert!(hot.redis.pressure(&FRESH, now()).await.is_err());
    assert!(hot.redis.backlog(shard()).await.is_err());
}
