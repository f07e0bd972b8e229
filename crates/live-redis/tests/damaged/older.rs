//! The queue of an older deployment: its list, and the float counters that old programs keep.

use live_redis::{LiveRedis, LiveRedisError, OlderQueue};
use spend_queue::{Acked, PendingSpend, Receipt, ScopeRef, Shard, SpendQueue, Usd};

use crate::common::{Hot, limit};
use crate::{TYPES, refused};

const LIST: &[u8] = b"old:spendlog";
const COUNTER: &[u8] = b"old:spend:organization/o";

fn organization() -> ScopeRef {
    ScopeRef::new("organization", "o").unwrap()
}

async fn private() -> Hot {
    Hot::private_with(|options| options.with_older_queue(OlderQueue::new("old".parse().unwrap()))).await
}

/// Two entries of half a dollar and what their writer counted; the first entry is looked at.
async fn fill(hot: &Hot) -> Receipt {
    let _: String = hot.run(&[b"FLUSHALL"]).await;
    for id in ["a", "b"] {
        let entry = format!(r#"{{"request_id":"{id}","org_id":"o","spend":0.5}}"#);
        let _: u64 = hot.run(&[b"RPUSH", LIST, entry.as_bytes()]).await;
        let _: String = hot.run(&[b"INCRBYFLOAT", COUNTER, b"0.5"]).await;
    }
    hot.redis.peek(Shard::OLDER, limit(1)).await.unwrap().receipt().unwrap()
}

async fn pending(redis: &LiveRedis) -> Result<Usd, LiveRedisError> {
    redis.pending(&organization()).await
}

#[tokio::test]
async fn a_counter_that_is_no_number_stops_the_acknowledgement_before_it_takes_anything() {
    let hot = private().await;
    let digits = [b'1'; 300];
    let bad: [&[u8]; 14] = [
        b"x", b"", b" 5", b"5 ", b"+5", b"0x10", b"inf", b"-inf", b"nan", b"1e4000", b"1e3", b".5", b"5\0",
        &digits,
    ];
    let mut tried = 0;
    for value in bad {
        let receipt = fill(&hot).await;
        let _: String = hot.run(&[b"SET", COUNTER, value]).await;
        let error = refused(&hot, "counter", hot.redis.ack(&receipt)).await;
        assert!(matches!(error, LiveRedisError::Damaged(_)), "{value:?}: {error}");
        assert_eq!(pending(&hot.redis).await, Ok("1".parse().unwrap()));
        tried += 1;
    }
    for command in TYPES.iter().filter(|command| command[0] != b"SET") {
        let receipt = fill(&hot).await;
        crate::replace(&hot, std::str::from_utf8(COUNTER).unwrap(), command).await;
        refused(&hot, "counter", hot.redis.ack(&receipt)).await;
        tried += 1;
    }
    println!("{tried} damaged counters of an older deployment tried");
}

#[tokio::test]
async fn a_number_in_any_writing_of_its_own_is_taken_down() {
    let hot = private().await;
    let held: [(&[u8], Option<f64>); 7] = [
        (b"1", Some(0.5)),
        (b"1.", Some(0.5)),
        (b"00.75", Some(0.25)),
        (b"1.00000000000000000000", Some(0.5)),
        (b"0.5000000000000001", None),
        (b"0.25", None),
        (b"-3", None),
    ];
    for (value, left) in held {
        let receipt = fill(&hot).await;
        let _: String = hot.run(&[b"SET", COUNTER, value]).await;
        assert_eq!(hot.redis.ack(&receipt).await, Ok(Acked::Done { depth: 1, short_counters: 0 }));
        assert_eq!(hot.run::<Option<f64>>(&[b"GET", COUNTER]).await, left, "{value:?}");
        assert_eq!(pending(&hot.redis).await, Ok("0.5".parse().unwrap()));
    }
}

#[tokio::test]
async fn a_list_of_another_type_stops_every_call() {
    let hot = private().await;
    let mut tried = 0;
    for command in TYPES.iter().filter(|command| command[0] != b"RPUSH") {
        let receipt = fill(&hot).await;
        crate::replace(&hot, std::str::from_utf8(LIST).unwrap(), command).await;
        refused(&hot, "peek", hot.redis.peek(Shard::OLDER, limit(1))).await;
        refused(&hot, "ack", hot.redis.ack(&receipt)).await;
        refused(&hot, "pending", pending(&hot.redis)).await;
        refused(&hot, "backlog", hot.redis.backlog(Shard::OLDER)).await;
        tried += 4;
    }
    println!("{tried} calls on older queues of another type tried");
}

#[tokio::test]
async fn an_entry_that_cannot_be_read_is_never_left_out_of_a_sum() {
    let hot = private().await;
    let bad = [
        "",
        "garbage",
        "[]",
        "7",
        r#"{"org_id":"o","spend":0.5}"#,
        r#"{"request_id":"","spend":0.5}"#,
        r#"{"request_id":7,"spend":0.5}"#,
        r#"{"request_id":"c","spend":"0.5"}"#,
        r#"{"request_id":"c","spend":-0.5}"#,
        r#"{"request_id":"c","spend":true}"#,
        r#"{"request_id":"c","spend":{}}"#,
        r#"{"request_id":"c","spend":0.5,"spend":0.25}"#,
    ];
    for entry in bad {
        fill(&hot).await;
        let _: u64 = hot.run(&[b"RPUSH", LIST, entry.as_bytes()]).await;
        let error = refused(&hot, entry, pending(&hot.redis)).await;
        assert!(matches!(error, LiveRedisError::Damaged(_)), "{entry}: {error}");
        let batch = hot.redis.peek(Shard::OLDER, limit(10)).await.unwrap();
        assert_eq!(batch.entries.len(), 2, "the flusher does not read {entry} either");
    }
    println!("{} entries of an older deployment tried", bad.len());
}
