//! A key that holds what no script writes: an error, and not one byte changed. Each key of each script.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod common;

use std::sync::Arc;

use common::{Hot, event, limit, now, shard};
use live_redis::LiveRedisError;
use rate_plan::{Limits, Node, RateTree, Scope};
use spend_queue::{QueueError, SpendQueue};

/// Commands that put something of the wrong type at a key, whatever was there.
const WRONG_TYPES: [&[&[u8]]; 3] = [&[b"SET", b"x"], &[b"SADD", b"x"], &[b"ZADD", b"1", b"x"]];

async fn wrong_type(hot: &Hot, key: &str, command: &[&[u8]]) {
    let _: i64 = hot.run(&[b"DEL", key.as_bytes()]).await;
    let mut words = vec![command[0], key.as_bytes()];
    words.extend(&command[1..]);
    let _: redis::Value = hot.run(&words).await;
}

async fn set_field(hot: &Hot, key: &str, field: &[u8], value: &[u8]) {
    let _: i64 = hot.run(&[b"HSET", key.as_bytes(), field, value]).await;
}

/// Runs all three calls' kinds that touch the damaged key and expects a permanent error and no change.
async fn refused<T: std::fmt::Debug>(
    hot: &Hot,
    what: &str,
    call: impl Future<Output = Result<T, LiveRedisError>>,
) -> LiveRedisError {
    let before = hot.digest().await;
    let error = match call.await {
        Err(error) => error,
        Ok(done) => panic!("{what}: {done:?}"),
    };
    assert_eq!(hot.digest().await, before, "{what}: {error}");
    assert!(!error.is_transient(), "{what}: {error}");
    assert!(!error.to_string().contains('\n'), "{what}: {error}");
    error
}

/// Three queued events, one of them looked at.
async fn filled() -> (Hot, spend_queue::Receipt) {
    let hot = Hot::private().await;
    for id in ["a", "b", "c"] {
        hot.redis.enqueue(&event(id, 5)).await.unwrap();
    }
    let receipt = hot.redis.peek(shard(), limit(1)).await.unwrap().receipt().unwrap();
    (hot, receipt)
}

async fn seen_key(hot: &Hot, id: &str) -> (String, Vec<u8>) {
    let digest = event(id, 5).digest();
    let bytes = digest.as_bytes();
    let bucket = u16::from_be_bytes([bytes[0], bytes[1]]) >> 2;
    (hot.key(&format!("seen:{bucket:04x}")), bytes[2..].to_vec())
}

#[tokio::test]
async fn a_key_of_the_wrong_type_stops_every_script_that_uses_it() {
    let mut tried = 0;
    for command in WRONG_TYPES {
        for what in ["queue", "state", "hot", "count"] {
            let (hot, receipt) = filled().await;
            wrong_type(&hot, &hot.key(what), command).await;
            refused(&hot, what, hot.redis.enqueue(&event("d", 5))).await;
            refused(&hot, what, hot.redis.enqueue(&event("free", 0))).await;
            refused(&hot, what, hot.redis.ack(&receipt)).await;
            if what == "queue" {
                refused(&hot, what, hot.redis.peek(shard(), limit(1))).await;
            }
            tried += 1;
        }
        let (hot, _) = filled().await;
        wrong_type(&hot, &seen_key(&hot, "d").await.0, command).await;
        refused(&hot, "seen", hot.redis.enqueue(&event("d", 5))).await;

        let minute = now().timestamp() / 60;
        wrong_type(&hot, &hot.key(&format!("rate:{minute}:flat")), command).await;
        let scopes = vec![(Scope::new("key", "k").unwrap(), Limits { rpm: Some(9), tpm: None })];
        refused(&hot, "rate", hot.redis.admit_rates(scopes, 1, now())).await;
        tried += 2;
    }
    println!("{tried} damaged keys tried");
}

#[tokio::test]
async fn a_queue_key_of_the_wrong_type_leaves_the_request_id_unclaimed() {
    let hot = Hot::private().await;
    wrong_type(&hot, &hot.key("queue"), WRONG_TYPES[0]).await;
    refused(&hot, "queue", hot.redis.enqueue(&event("a", 5))).await;
    let _: i64 = hot.run(&[b"DEL", hot.key("queue").as_bytes()]).await;
    assert!(matches!(hot.redis.enqueue(&event("a", 5)).await, Ok(spend_queue::Enqueued::Accepted { .. })));
}

#[tokio::test]
async fn a_value_that_is_no_integer_of_ours_is_damage_and_never_a_number() {
    let bad: [&[u8]; 9] =
        [b"x", b"", b"-5", b"0", b"05", b"1.5", b"1e3", b"99999999999999999999", b"9007199254740993x"];
    let mut tried = 0;
    for value in bad {
        for (key, field) in [("hot", &b"team/t"[..]), ("count", b"key/k"), ("state", b"next")] {
            let (hot, receipt) = filled().await;
            set_field(&hot, &hot.key(key), field, value).await;
            for error in [
                refused(&hot, key, hot.redis.enqueue(&event("d", 5))).await,
                refused(&hot, key, hot.redis.ack(&receipt)).await,
            ] {
                assert!(matches!(error, LiveRedisError::Damaged(_)), "{error}");
            }
            tried += 1;
        }
        let (hot, receipt) = filled().await;
        set_field(&hot, &hot.key("state"), b"chain", value).await;
        refused(&hot, "chain", hot.redis.enqueue(&event("d", 5))).await;
        set_field(&hot, &hot.key("state"), b"short", value).await;
        refused(&hot, "short", hot.redis.ack(&receipt)).await;
        let (seen, field) = seen_key(&hot, "a").await;
        set_field(&hot, &seen, &field, value).await;
        refused(&hot, "seen", hot.redis.enqueue(&event("a", 5))).await;
        tried += 3;
    }
    println!("{tried} damaged values tried");
}

#[tokio::test]
async fn half_an_index_is_damage() {
    let (hot, _) = filled().await;
    let _: i64 = hot.run(&[b"HDEL", hot.key("count").as_bytes(), b"team/t"]).await;
    refused(&hot, "count", hot.redis.enqueue(&event("d", 5))).await;
    let (hot, _) = filled().await;
    let _: i64 = hot.run(&[b"HDEL", hot.key("state").as_bytes(), b"chain"]).await;
    refused(&hot, "state", hot.redis.enqueue(&event("d", 5))).await;
}

/// What no script writes as a rate counter.
fn bad_counters() -> Vec<Vec<u8>> {
    let above = (1_i64 << 53).to_be_bytes();
    let negative = (-1_i64).to_be_bytes();
    let zero = 0_i64.to_be_bytes();
    let mut bad: Vec<Vec<u8>> = vec![b"".to_vec(), b"5".to_vec(), vec![0; 31], vec![0; 33]];
    for place in 0..4 {
        for number in [above, negative] {
            bad.push((0..4).flat_map(|at| if at == place { number } else { zero }).collect());
        }
    }
    bad
}

fn chain() -> Arc<RateTree> {
    let node = |kind: &str, parent| Node {
        scope: Scope::new(kind, "x").unwrap(),
        parent,
        limits: Limits { rpm: Some(9), tpm: None },
    };
    Arc::new(RateTree::new(vec![node("o", None), node("t", Some(0)), node("k", Some(1))]).unwrap())
}

#[tokio::test]
async fn a_rate_counter_of_another_form_is_damage_to_every_script_wherever_it_stands_on_the_path() {
    let tree = chain();
    let plan = tree.plan(2).unwrap();
    let other = Arc::new(tree.with_limits(1, Limits { rpm: Some(8), tpm: None }).unwrap());
    let rate = |hot: &Hot| hot.key(&format!("rate:{}:o/x", now().timestamp() / 60));
    let mut tried = 0;
    for value in &bad_counters() {
        for field in [&b"k/x"[..], b"t/x", b"o/x"] {
            let hot = Hot::private().await;
            let admitted = hot.redis.admit_rate_plan(&plan, 5, now()).await.unwrap();
            let ticket = admitted.ticket().unwrap();
            set_field(&hot, &rate(&hot), field, value).await;
            let two = [(plan.clone(), 1), (tree.plan(1).unwrap(), 1)];
            for error in [
                refused(&hot, "one", hot.redis.admit_rate_plan(&plan, 1, now())).await,
                refused(&hot, "batch", hot.redis.admit_rate_plans("o/x", &two, now())).await,
                refused(&hot, "rebuild", hot.redis.admit_rate_plan(&other.plan(0).unwrap(), 1, now())).await,
                refused(&hot, "settle", hot.redis.settle(ticket, 7)).await,
                refused(&hot, "refund", hot.redis.refund(ticket)).await,
            ] {
                // A node that the request's own path does not touch need not be read by it.
                assert!(matches!(error, LiveRedisError::Damaged(_)), "{value:?} at {field:?}: {error}");
            }
            tried += 1;
        }
    }
    println!("{tried} damaged counters tried");
}

#[tokio::test]
async fn more_released_than_was_ever_promised_is_damage() {
    let hot = Hot::private().await;
    let plan = chain().plan(2).unwrap();
    assert!(hot.redis.admit_rate_plan(&plan, 5, now()).await.unwrap().is_admitted());
    let packed: Vec<u8> = [1, 5, 10, 0_i64].into_iter().flat_map(i64::to_be_bytes).collect();
    set_field(&hot, &hot.key(&format!("rate:{}:o/x", now().timestamp() / 60)), b"o/x", &packed).await;
    let error = refused(&hot, "released", hot.redis.admit_rate_plan(&plan, 1, now())).await;
    assert!(matches!(error, LiveRedisError::Damaged(_)), "{error}");
}

#[tokio::test]
async fn rate_keys_of_the_wrong_type_stop_every_script_that_uses_them() {
    let tree = chain();
    let plan = tree.plan(2).unwrap();
    let minute = now().timestamp() / 60;
    for command in WRONG_TYPES {
        let hot = Hot::private().await;
        let admitted = hot.redis.admit_rate_plan(&plan, 5, now()).await.unwrap();
        let ticket = admitted.ticket().unwrap();
        if command[0] != b"SADD" {
            wrong_type(&hot, &hot.key(&format!("settled:{minute}:o/x")), command).await;
            refused(&hot, "settled", hot.redis.settle(ticket, 7)).await;
            refused(&hot, "settled", hot.redis.refund(ticket)).await;
        }
        wrong_type(&hot, &hot.key(&format!("rate:{minute}:o/x")), command).await;
        refused(&hot, "rate", hot.redis.admit_rate_plan(&plan, 1, now())).await;
        refused(
            &hot,
            "rate",
            hot.redis.admit_rate_plans("o/x", &[(plan.clone(), 1), (plan.clone(), 1)], now()),
        )
        .await;
        refused(&hot, "rate", hot.redis.settle(ticket, 7)).await;
    }
}
