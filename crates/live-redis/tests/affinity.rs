//! Strings and affinities on a real Redis.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod common;

use std::time::Duration;

use common::Hot;
use live_redis::{InputError, LiveRedis, LiveRedisError, MAX_KEY_BYTES, MAX_TTL, MAX_VALUE_BYTES};
use tokio::task::JoinSet;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// What no string is.
const WRONG_TYPES: [&[&[u8]]; 3] = [&[b"SADD", b"x"], &[b"RPUSH", b"x"], &[b"HSET", b"f", b"x"]];

#[tokio::test]
async fn a_string_is_what_was_set_last_until_it_expires() {
    let hot = Hot::shared().await;
    assert_eq!(hot.redis.get_string("k").await.unwrap(), None);
    for value in ["", "one", "zwei\n\0{}", &"x".repeat(MAX_VALUE_BYTES)] {
        hot.redis.set_string("k", value, MINUTE).await.unwrap();
        assert_eq!(hot.redis.get_string("k").await.unwrap().as_deref(), Some(value));
    }
    hot.redis.set_string("k", "v", HOUR).await.unwrap();
    assert!((3_590_000..=3_600_000).contains(&hot.left("str:k").await));
    hot.redis.set_string(&"k".repeat(MAX_KEY_BYTES), "v", MAX_TTL).await.unwrap();
    assert_eq!((hot.keys().await.len(), hot.lasting().await), (2, vec![]));
    assert_eq!(hot.redis.read_affinity("k").await.unwrap(), None, "strings and affinities are apart");
    let _: i64 = hot.run(&[b"PEXPIRE", hot.key("str:k").as_bytes(), b"-1"]).await;
    assert_eq!(hot.redis.get_string("k").await.unwrap(), None);
    assert_eq!(hot.redis.degradations(), 0);
}

#[tokio::test]
async fn a_string_key_that_holds_something_else_reads_as_absent_and_is_not_overwritten() {
    let hot = Hot::private().await;
    for words in WRONG_TYPES {
        hot.plant("str:k", words).await;
        let (digest, before) = (hot.digest().await, hot.redis.degradations());
        assert_eq!(hot.redis.get_string("k").await.unwrap(), None);
        hot.redis.set_string("k", "v", MINUTE).await.unwrap();
        assert_eq!(hot.redis.degradations(), before + 2);
        assert_eq!(hot.digest().await, digest);
    }
    hot.plant("str:k", &[b"SET", b"\xff\xfe"]).await;
    assert_eq!(hot.redis.get_string("k").await.unwrap(), None);
    assert_eq!(hot.redis.degradations(), 7);
    hot.redis.set_string("k", "v", MINUTE).await.unwrap();
    assert_eq!(hot.redis.get_string("k").await.unwrap().as_deref(), Some("v"));
}

#[tokio::test]
async fn an_affinity_is_renewed_only_when_it_is_the_expected_one() {
    let hot = Hot::shared().await;
    assert!(!hot.redis.compare_affinity("k", "a", HOUR).await.unwrap());
    assert!(!hot.redis.compare_affinity("k", "", HOUR).await.unwrap());
    assert_eq!(hot.keys().await, [""; 0]);

    hot.redis.write_affinity("k", "a", MINUTE).await.unwrap();
    for other in ["b", "", "A", "a "] {
        assert!(!hot.redis.compare_affinity("k", other, HOUR).await.unwrap());
        assert!((1..=60_000).contains(&hot.left("affinity:k").await));
        assert_eq!(hot.redis.read_affinity("k").await.unwrap().as_deref(), Some("a"));
    }
    assert!(hot.redis.compare_affinity("k", "a", HOUR).await.unwrap());
    assert!((3_590_000..=3_600_000).contains(&hot.left("affinity:k").await));
    assert_eq!(hot.redis.read_affinity("k").await.unwrap().as_deref(), Some("a"));
}

#[tokio::test]
async fn an_affinity_is_swapped_only_for_the_expected_one() {
    let hot = Hot::shared().await;
    let swap = |expected, value, ttl| hot.redis.swap_affinity("k", expected, value, ttl);
    assert!(!swap(Some("a"), "b", HOUR).await.unwrap());
    assert!(!swap(Some(""), "b", HOUR).await.unwrap(), "an empty one is not an absent one");
    assert_eq!(hot.keys().await, [""; 0]);
    assert!(swap(None, "", MINUTE).await.unwrap());
    assert!(!swap(None, "b", HOUR).await.unwrap());
    assert!(!swap(Some("c"), "b", HOUR).await.unwrap());
    assert!((1..=60_000).contains(&hot.left("affinity:k").await));
    assert!(swap(Some(""), "b", HOUR).await.unwrap());
    assert!((3_590_000..=3_600_000).contains(&hot.left("affinity:k").await));
    assert_eq!(hot.redis.read_affinity("k").await.unwrap().as_deref(), Some("b"));
    assert_eq!(hot.lasting().await, [""; 0]);
}

#[tokio::test]
async fn an_affinity_is_dropped_only_by_who_knows_it() {
    let hot = Hot::shared().await;
    assert!(!hot.redis.drop_affinity("k", "a").await.unwrap());
    assert!(hot.redis.swap_affinity("k", None, "a", HOUR).await.unwrap());
    assert!(!hot.redis.drop_affinity("k", "b").await.unwrap());
    assert_eq!(hot.redis.read_affinity("k").await.unwrap().as_deref(), Some("a"));
    assert!(hot.redis.drop_affinity("k", "a").await.unwrap());
    assert_eq!(hot.keys().await, [""; 0]);
    assert!(hot.redis.swap_affinity("k", None, "c", HOUR).await.unwrap(), "it is free again");
}

#[tokio::test]
async fn of_many_who_swap_the_same_affinity_one_wins() {
    let hot = Hot::shared().await;
    let mut expected: Option<String> = None;
    for round in 0..4 {
        let mut tasks = JoinSet::new();
        for task in 0..50 {
            let (redis, expected) = (hot.redis.clone(), expected.clone());
            let value = format!("{round}-{task}");
            tasks.spawn(async move {
                let won = redis.swap_affinity("k", expected.as_deref(), &value, MINUTE).await.unwrap();
                won.then_some(value)
            });
        }
        let winners: Vec<String> = tasks.join_all().await.into_iter().flatten().collect();
        assert_eq!(winners.len(), 1, "{winners:?}");
        assert_eq!(hot.redis.read_affinity("k").await.unwrap(), winners.first().cloned());
        expected = winners.into_iter().next();
    }
}

#[tokio::test]
async fn an_affinity_key_that_holds_something_else_is_an_error_and_stays_as_it_is() {
    let hot = Hot::private().await;
    for words in WRONG_TYPES {
        hot.plant("affinity:k", words).await;
        hot.unchanged(hot.redis.read_affinity("k")).await;
        hot.unchanged(hot.redis.write_affinity("k", "v", MINUTE)).await;
        hot.unchanged(hot.redis.compare_affinity("k", "v", MINUTE)).await;
        hot.unchanged(hot.redis.swap_affinity("k", None, "v", MINUTE)).await;
        hot.unchanged(hot.redis.swap_affinity("k", Some("v"), "w", MINUTE)).await;
    }
    hot.plant("affinity:k", &[b"SET", b"\xff"]).await;
    let error = hot.unchanged(hot.redis.read_affinity("k")).await;
    assert!(matches!(error, LiveRedisError::Damaged(_)), "{error}");
    assert_eq!(hot.redis.degradations(), 0, "a strict call has no fallback");
}

#[tokio::test]
async fn bad_input_is_refused_before_anything_is_sent() {
    let redis = LiveRedis::disabled();
    let (long, large) = ("k".repeat(MAX_KEY_BYTES + 1), "v".repeat(MAX_VALUE_BYTES + 1));
    let mut refused: Vec<LiveRedisError> = Vec::new();
    for key in ["", "a\nb", "\0", long.as_str()] {
        refused.push(redis.get_string(key).await.unwrap_err().into());
        refused.push(redis.set_string(key, "v", MINUTE).await.unwrap_err().into());
        refused.push(redis.read_affinity(key).await.unwrap_err());
        refused.push(redis.write_affinity(key, "v", MINUTE).await.unwrap_err());
        refused.push(redis.compare_affinity(key, "v", MINUTE).await.unwrap_err());
        refused.push(redis.swap_affinity(key, None, "v", MINUTE).await.unwrap_err());
    }
    for ttl in [Duration::ZERO, Duration::from_micros(999), MAX_TTL + Duration::from_millis(1)] {
        refused.push(redis.set_string("k", "v", ttl).await.unwrap_err().into());
        refused.push(redis.write_affinity("k", "v", ttl).await.unwrap_err());
        refused.push(redis.compare_affinity("k", "v", ttl).await.unwrap_err());
        refused.push(redis.swap_affinity("k", None, "v", ttl).await.unwrap_err());
    }
    refused.push(redis.set_string("k", &large, MINUTE).await.unwrap_err().into());
    refused.push(redis.write_affinity("k", &large, MINUTE).await.unwrap_err());
    refused.push(redis.compare_affinity("k", &large, MINUTE).await.unwrap_err());
    refused.push(redis.swap_affinity("k", Some(&large), "v", MINUTE).await.unwrap_err());
    let error = redis.swap_affinity("k", None, &large, MINUTE).await.unwrap_err();
    assert_eq!(error, InputError::Value { field: "affinity", bytes: MAX_VALUE_BYTES + 1 }.into());
    refused.push(error);
    for error in refused {
        assert!(matches!(error, LiveRedisError::Input(_)), "{error}");
    }
}
