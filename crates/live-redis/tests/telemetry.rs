//! Failures and cooldowns, latencies, tokens of the minute, on a real Redis.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod common;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use chrono::{DateTime, Utc};
use common::{Hot, now};
use live_redis::{InputError, LiveRedis, LiveRedisError, MAX_TTL, Options};
use spend_queue::ShardCount;
use tokio::task::JoinSet;

const MINUTE: Duration = Duration::from_secs(60);

fn at(time: &str) -> DateTime<Utc> {
    time.parse().unwrap()
}

fn ids(names: &[&str]) -> HashSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[tokio::test]
async fn the_allowed_th_failure_cools_and_no_earlier_one() {
    let hot = Hot::shared().await;
    for _ in 0..2 {
        assert!(!hot.redis.record_failure("a", 3, MINUTE).await.unwrap());
        assert_eq!(hot.redis.cooled(&["a", "b"]).await.unwrap(), ids(&[]));
    }
    assert!(hot.redis.record_failure("a", 3, MINUTE).await.unwrap());
    assert!(!hot.redis.record_failure("b", 3, MINUTE).await.unwrap());
    assert_eq!(hot.redis.cooled(&["a", "b", "a"]).await.unwrap(), ids(&["a"]));
    assert!(hot.redis.record_failure("c", 1, MINUTE).await.unwrap());
    assert_eq!(hot.lasting().await, [""; 0]);
}

#[tokio::test]
async fn no_allowed_failures_switch_cooldowns_off() {
    let hot = Hot::shared().await;
    for allowed in [0, -1, i64::MIN] {
        assert!(!hot.redis.record_failure("a", allowed, MINUTE).await.unwrap());
        assert!(!hot.redis.record_failure("a", allowed, Duration::ZERO).await.unwrap());
    }
    assert_eq!(hot.keys().await, [""; 0]);
}

#[tokio::test]
async fn a_longer_cooldown_replaces_a_shorter_one_and_never_the_reverse() {
    let hot = Hot::shared().await;
    hot.redis.record_failure("a", 1, Duration::from_secs(100)).await.unwrap();
    assert!((90_000..=100_000).contains(&hot.left("cooldown:a").await));
    hot.redis.record_failure("a", 1, Duration::from_secs(1000)).await.unwrap();
    assert!((990_000..=1_000_000).contains(&hot.left("cooldown:a").await));
    assert!(hot.redis.record_failure("a", 1, Duration::from_secs(5)).await.unwrap());
    assert!((990_000..=1_000_000).contains(&hot.left("cooldown:a").await));
    hot.redis.record_failure("a", 1, MAX_TTL).await.unwrap();
    assert!(hot.left("cooldown:a").await > 34_559_000_000);
}

#[tokio::test]
async fn a_failure_below_the_threshold_leaves_a_cooldown_alone_and_reports_it() {
    let hot = Hot::shared().await;
    hot.redis.record_failure("a", 1, Duration::from_secs(100)).await.unwrap();
    assert!(hot.redis.record_failure("a", 50, Duration::from_secs(1000)).await.unwrap());
    assert!(hot.left("cooldown:a").await <= 100_000);
}

#[tokio::test]
async fn the_counting_window_starts_with_its_first_failure_and_no_later_one_prolongs_it() {
    let hot = Hot::shared().await;
    hot.redis.record_failure("a", 3, MINUTE).await.unwrap();
    assert!((50_000..=60_000).contains(&hot.left("fails:a").await));
    let _: i64 = hot.run(&[b"PEXPIRE", hot.key("fails:a").as_bytes(), b"30000"]).await;
    hot.redis.record_failure("a", 3, MINUTE).await.unwrap();
    assert!((20_000..=30_000).contains(&hot.left("fails:a").await));

    let _: i64 = hot.run(&[b"PEXPIRE", hot.key("fails:a").as_bytes(), b"-1"]).await;
    assert!(!hot.redis.record_failure("a", 3, MINUTE).await.unwrap(), "a new window counts from one");
    assert!((50_000..=60_000).contains(&hot.left("fails:a").await));
}

#[tokio::test]
async fn a_key_that_was_made_to_stay_for_ever_gets_its_expiry_back() {
    let hot = Hot::shared().await;
    for key in ["fails:a", "cooldown:a", "usage:29539440:a"] {
        let _: String = hot.run(&[b"SET", hot.key(key).as_bytes(), b"1"]).await;
    }
    let _: i64 = hot.run(&[b"RPUSH", hot.key("latency:a").as_bytes(), b"1"]).await;
    hot.redis.record_failure("a", 1, MINUTE).await.unwrap();
    hot.redis.add_latency("a", 1.0).await.unwrap();
    hot.redis.add_usage("a", 1, at("2026-03-01T12:00:00Z")).await.unwrap();
    assert_eq!((hot.keys().await.len(), hot.lasting().await), (4, vec![]));
}

#[tokio::test]
async fn failures_recorded_at_once_are_all_counted_and_cool_at_the_threshold() {
    let hot = Hot::shared().await;
    let mut tasks = JoinSet::new();
    for _ in 0..100 {
        let redis = hot.redis.clone();
        tasks.spawn(async move { redis.record_failure("a", 10, MINUTE).await.unwrap() });
    }
    let cooled = tasks.join_all().await.into_iter().filter(|&cooled| cooled).count();
    assert_eq!(cooled, 91, "the tenth and every later one");
    assert_eq!(hot.run::<u64>(&[b"GET", hot.key("fails:a").as_bytes()]).await, 100);
    assert_eq!(hot.redis.cooled(&["a"]).await.unwrap(), ids(&["a"]));
    assert_eq!(hot.lasting().await, [""; 0]);
}

#[tokio::test]
async fn the_mean_is_that_of_the_last_twenty_samples_of_an_hour() {
    let hot = Hot::shared().await;
    for _ in 0..30 {
        hot.redis.add_latency("a", 100.0).await.unwrap();
    }
    for sample in 1..=20 {
        hot.redis.add_latency("a", f64::from(sample) / 4.0).await.unwrap();
    }
    hot.redis.add_latency("b", 0.0).await.unwrap();
    let means = hot.redis.latencies(&["a", "b", "c"]).await.unwrap();
    assert!((means["a"] - 2.625).abs() < 1e-12, "{means:?}");
    assert_eq!(means.get("b"), Some(&0.0));
    assert_eq!(means.len(), 2, "one without samples is left out");
    assert_eq!(hot.run::<u64>(&[b"LLEN", hot.key("latency:a").as_bytes()]).await, 20);
    assert!((3_590_000..=3_600_000).contains(&hot.left("latency:a").await));
}

#[tokio::test]
async fn samples_that_are_none_are_skipped() {
    let hot = Hot::shared().await;
    hot.plant("latency:a", &[b"RPUSH", b"x", b"nan", b"-3", b"inf", b"", b"\xff", b"2", b"4"]).await;
    hot.plant("latency:b", &[b"RPUSH", b"nan"]).await;
    let means = hot.redis.latencies(&["a", "b"]).await.unwrap();
    assert_eq!(means, HashMap::from([("a".to_owned(), 3.0)]));
}

#[tokio::test]
async fn tokens_are_totalled_by_the_utc_minute() {
    let hot = Hot::shared().await;
    let (first, last, next) =
        (at("2026-03-01T12:00:00Z"), at("2026-03-01T12:00:59.999Z"), at("2026-03-01T12:01:00Z"));
    hot.redis.add_usage("a", 40, first).await.unwrap();
    hot.redis.add_usage("a", 2, last).await.unwrap();
    hot.redis.add_usage("a", 7, next).await.unwrap();
    hot.redis.add_usage("b", 0, last).await.unwrap();
    let usages = |now| hot.redis.usages(&["a", "b", "c"], now);
    assert_eq!(usages(last).await.unwrap(), HashMap::from([("a".to_owned(), 42), ("b".to_owned(), 0)]));
    assert_eq!(usages(next).await.unwrap(), HashMap::from([("a".to_owned(), 7)]));
    let minute = first.timestamp() / 60;
    assert!((110_000..=120_000).contains(&hot.left(&format!("usage:{minute}:a")).await));
    assert_eq!(hot.lasting().await, [""; 0]);
}

#[tokio::test]
async fn a_total_never_passes_what_can_be_counted_exactly() {
    let hot = Hot::private().await;
    let most = (1_i64 << 53) - 1;
    hot.redis.add_usage("a", most - 1, now()).await.unwrap();
    for tokens in [2, most] {
        let error = hot.unchanged(hot.redis.add_usage("a", tokens, now())).await;
        assert!(matches!(error, LiveRedisError::CounterFull(_)), "{error}");
    }
    hot.redis.add_usage("a", 1, now()).await.unwrap();
    assert_eq!(hot.redis.usages(&["a"], now()).await.unwrap()["a"], most.cast_unsigned());
}

#[tokio::test]
async fn many_ids_over_many_shards_are_read_together() {
    let test = devstack::redis().unwrap().test();
    let options = Options::default()
        .with_prefix(test.prefix().parse().unwrap())
        .with_shards(ShardCount::new(7).unwrap());
    let redis = LiveRedis::open_with(test.url(), options).await.unwrap();
    let names: Vec<String> = (0..500).map(|n| format!("deployment/{n}")).collect();
    for (n, name) in names.iter().enumerate() {
        redis.add_latency(name, f64::from(u32::try_from(n).unwrap())).await.unwrap();
        redis.add_usage(name, i64::try_from(n).unwrap(), now()).await.unwrap();
        if n % 3 == 0 {
            redis.record_failure(name, 1, MINUTE).await.unwrap();
        }
    }
    let ids: Vec<&str> = names.iter().map(String::as_str).rev().collect();
    let (cooled, latencies, usages) =
        tokio::join!(redis.cooled(&ids), redis.latencies(&ids), redis.usages(&ids, now()));
    let (cooled, latencies, usages) = (cooled.unwrap(), latencies.unwrap(), usages.unwrap());
    for (n, name) in names.iter().enumerate() {
        assert_eq!(cooled.contains(name), n % 3 == 0, "{name}");
        assert_eq!(latencies.get(name), Some(&f64::from(u32::try_from(n).unwrap())), "{name}");
        assert_eq!(usages[name], u64::try_from(n).unwrap(), "{name}");
    }
    assert_eq!(redis.degradations(), 0);
    assert_eq!(redis.cooled(&[]).await.unwrap(), HashSet::new());
}

#[tokio::test]
async fn telemetry_may_be_read_from_a_task_of_its_own() {
    let hot = Hot::shared().await;
    let redis = hot.redis.clone();
    let read = tokio::spawn(async move {
        redis.record_failure("a", 1, MINUTE).await.unwrap();
        redis.cooled(&["a"]).await.unwrap().len()
    });
    assert_eq!(read.await.unwrap(), 1);
}

#[tokio::test]
async fn a_damaged_key_is_refused_by_its_script_and_hides_no_other_id_from_a_read() {
    let minute = now().timestamp() / 60;
    let usage = format!("usage:{minute}:a");
    let nonsense: [&[&[u8]]; 6] = [
        &[b"HSET", b"f", b"1"],
        &[b"SADD", b"x"],
        &[b"SET", b"x"],
        &[b"SET", b"-1"],
        &[b"SET", b"1.5"],
        &[b"SET", b"9007199254740993"],
    ];
    for words in nonsense {
        let hot = Hot::private().await;
        hot.redis.record_failure("b", 1, MINUTE).await.unwrap();
        hot.redis.add_latency("b", 1.0).await.unwrap();
        hot.redis.add_usage("b", 1, now()).await.unwrap();
        for key in ["cooldown:a", "latency:a", &usage] {
            hot.plant(key, words).await;
        }
        hot.unchanged(hot.redis.record_failure("a", 1, MINUTE)).await;
        hot.unchanged(hot.redis.add_latency("a", 1.0)).await;
        hot.unchanged(hot.redis.add_usage("a", 1, now())).await;
        hot.plant("cooldown:a", &[b"SET", b"1"]).await;
        hot.plant("fails:a", words).await;
        hot.unchanged(hot.redis.record_failure("a", 1, MINUTE)).await;
        hot.plant("cooldown:a", words).await;

        assert_eq!(hot.redis.degradations(), 0);
        assert_eq!(hot.redis.cooled(&["a", "b"]).await.unwrap(), ids(&["b"]));
        assert_eq!(hot.redis.degradations(), 1);
        assert_eq!(hot.redis.latencies(&["a", "b"]).await.unwrap().len(), 1);
        assert_eq!(hot.redis.degradations(), 2);
        assert_eq!(hot.redis.usages(&["a", "b"], now()).await.unwrap().len(), 1);
        assert_eq!(hot.redis.degradations(), 3);
    }
}

#[tokio::test]
async fn bad_input_is_refused_before_anything_is_sent() {
    // Not even a Redis is needed to refuse it.
    let redis = LiveRedis::disabled();
    let long = "x".repeat(129);
    let mut refused = Vec::new();
    for id in ["", "a\n", "\0", "a\u{7f}", long.as_str()] {
        refused.push(redis.record_failure(id, 1, MINUTE).await.unwrap_err());
        refused.push(redis.record_failure(id, 0, MINUTE).await.unwrap_err());
        refused.push(redis.add_latency(id, 1.0).await.unwrap_err());
        refused.push(redis.add_usage(id, 1, now()).await.unwrap_err());
        refused.push(redis.cooled(&["a", id]).await.unwrap_err().into());
        refused.push(redis.latencies(&["a", id]).await.unwrap_err().into());
        refused.push(redis.usages(&["a", id], now()).await.unwrap_err().into());
    }
    for cooldown in [Duration::ZERO, MAX_TTL + Duration::from_millis(1), Duration::MAX] {
        refused.push(redis.record_failure("a", 1, cooldown).await.unwrap_err());
    }
    refused.push(redis.record_failure("a", 1 << 53, MINUTE).await.unwrap_err());
    for sample in [-0.001, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        refused.push(redis.add_latency("a", sample).await.unwrap_err());
    }
    for tokens in [-1, i64::MIN, 1 << 53] {
        let error = redis.add_usage("a", tokens, now()).await.unwrap_err();
        assert_eq!(error, InputError::Count { field: "tokens", given: tokens }.into());
    }
    for error in refused {
        assert!(matches!(error, LiveRedisError::Input(_)), "{error}");
        assert!(!error.to_string().contains(char::is_control), "{error}");
    }
    assert_eq!(redis.degradations(), 0);
}
