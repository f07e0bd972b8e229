//! Counters of the minute on a real Redis.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod common;

use common::{Hot, now};
use live_redis::{InputError, LiveRedis, LiveRedisError};
use spend_queue::QueueError;
use tokio::task::JoinSet;

const MOST: i64 = (1 << 53) - 1;

#[tokio::test]
async fn a_hit_answers_the_new_total_of_its_minute() {
    let hot = Hot::shared().await;
    let next = now() + chrono::TimeDelta::seconds(30);
    assert_eq!(hot.redis.hit_rpm("a", now()).await, Ok(1));
    assert_eq!(hot.redis.hit_rpm("a", now()).await, Ok(2));
    assert_eq!(hot.redis.hit_rpm("b", now()).await, Ok(1));
    assert_eq!(hot.redis.hit_rpm("a", next).await, Ok(1));
    assert_eq!(hot.redis.hit_tpm("a", 100, now()).await, Ok(100));
    assert_eq!(hot.redis.hit_tpm("a", 23, now()).await, Ok(123));
    assert_eq!(hot.redis.hit_tpm("a", 0, now()).await, Ok(123));
    assert_eq!(hot.redis.hit_tpm("b", 0, now()).await, Ok(0));
    let minute = now().timestamp() / 60;
    for key in [format!("rpm:{minute}:a"), format!("tpm:{minute}:a")] {
        assert!((110_000..=120_000).contains(&hot.left(&key).await), "{key}");
    }
    assert_eq!(hot.lasting().await, [""; 0]);
}

#[tokio::test]
async fn every_hit_of_many_at_once_gets_a_total_of_its_own() {
    let hot = Hot::shared().await;
    let mut tasks = JoinSet::new();
    for _ in 0..100 {
        let redis = hot.redis.clone();
        tasks.spawn(async move { redis.hit_rpm("a", now()).await.unwrap() });
    }
    let mut totals = tasks.join_all().await;
    totals.sort_unstable();
    assert!(totals.into_iter().eq(1..=100));
}

#[tokio::test]
async fn a_counter_answers_exactly_up_to_its_bound_and_refuses_to_pass_it() {
    let hot = Hot::private().await;
    assert_eq!(hot.redis.hit_tpm("a", MOST - 1, now()).await, Ok(MOST.cast_unsigned() - 1));
    for tokens in [2, 3, MOST] {
        let error = hot.unchanged(hot.redis.hit_tpm("a", tokens, now())).await;
        assert!(matches!(error, LiveRedisError::CounterFull(_)), "{error}");
        assert!(error.is_transient(), "the next minute counts from zero");
    }
    assert_eq!(hot.redis.hit_tpm("a", 1, now()).await, Ok(MOST.cast_unsigned()));

    let minute = now().timestamp() / 60;
    hot.plant(&format!("rpm:{minute}:a"), &[b"SET", b"9007199254740991"]).await;
    let error = hot.unchanged(hot.redis.hit_rpm("a", now())).await;
    assert!(matches!(error, LiveRedisError::CounterFull(_)), "{error}");
}

#[tokio::test]
async fn a_counter_that_is_no_integer_of_ours_is_an_error_and_stays_as_it_is() {
    let hot = Hot::private().await;
    let minute = now().timestamp() / 60;
    let values: [&[u8]; 7] = [b"x", b"", b"-1", b"1.5", b"1e3", b" 1", b"9007199254740992"];
    for value in values {
        for key in [format!("rpm:{minute}:a"), format!("tpm:{minute}:a")] {
            hot.plant(&key, &[b"SET", value]).await;
        }
        for error in [
            hot.unchanged(hot.redis.hit_rpm("a", now())).await,
            hot.unchanged(hot.redis.hit_tpm("a", 1, now())).await,
        ] {
            assert!(matches!(error, LiveRedisError::Damaged(_)), "{value:?}: {error}");
            assert!(!error.is_transient());
        }
    }
    let types: [&[&[u8]]; 4] =
        [&[b"SADD", b"x"], &[b"RPUSH", b"1"], &[b"HSET", b"f", b"1"], &[b"ZADD", b"1", b"x"]];
    for words in types {
        hot.plant(&format!("rpm:{minute}:a"), words).await;
        let error = hot.unchanged(hot.redis.hit_rpm("a", now())).await;
        assert!(!error.is_transient(), "{error}");
    }
}

#[tokio::test]
async fn bad_input_is_refused_before_anything_is_sent() {
    let redis = LiveRedis::disabled();
    for tokens in [-1, i64::MIN, MOST + 1, i64::MAX] {
        let error = redis.hit_tpm("a", tokens, now()).await.unwrap_err();
        assert_eq!(error, InputError::Count { field: "tokens", given: tokens }.into());
    }
    let long = "x".repeat(129);
    for id in ["", "a\r", long.as_str()] {
        assert!(matches!(redis.hit_rpm(id, now()).await, Err(LiveRedisError::Input(_))));
        assert!(matches!(redis.hit_tpm(id, 1, now()).await, Err(LiveRedisError::Input(_))));
    }
}
