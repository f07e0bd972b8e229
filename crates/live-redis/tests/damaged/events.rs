//! Damage that touches one event of a micro-batch, or one request id.

use live_redis::LiveRedisError;
use spend_queue::{Enqueued, PendingSpend, ScopeRef, SpendQueue, Usd};

use crate::common::{Hot, charged, event, team};
use crate::{TYPES, refused, replace, set_field};

/// The bucket and the field that remember an event's request id; empties the server.
async fn seen_key(hot: &Hot, id: &str) -> (String, Vec<u8>) {
    let _: String = hot.run(&[b"FLUSHALL"]).await;
    hot.redis.enqueue(&event(id, 5)).await.unwrap();
    let mut keys = hot.keys().await;
    keys.retain(|key| key.contains(":seen:"));
    let fields: Vec<Vec<u8>> = hot.run(&[b"HKEYS", keys[0].as_bytes()]).await;
    let _: String = hot.run(&[b"FLUSHALL"]).await;
    (keys.remove(0), fields[0].clone())
}

async fn calls(hot: &Hot) -> u64 {
    let info: String = hot.run(&[b"INFO", b"commandstats"]).await;
    let line = info.lines().find(|line| line.starts_with("cmdstat_evalsha:")).unwrap_or_default();
    line.split(['=', ',']).nth(1).map_or(0, |calls| calls.parse().unwrap())
}

#[tokio::test]
async fn a_remembered_id_that_no_script_writes_is_damage() {
    let hot = Hot::private().await;
    let mut tried = 0;
    for value in [&b""[..], b"x", b"12345"] {
        let (bucket, field) = seen_key(&hot, "a").await;
        hot.redis.enqueue(&event("a", 5)).await.unwrap();
        set_field(&hot, &bucket, &field, value).await;
        let error = refused(&hot, "seen", hot.redis.enqueue(&event("a", 5))).await;
        assert!(matches!(error, LiveRedisError::Damaged(_)), "{error}");
        tried += 1;
    }
    println!("{tried} damaged memories of an id tried");
}

#[tokio::test]
async fn a_queue_of_another_type_leaves_the_request_id_unclaimed() {
    let hot = Hot::private().await;
    replace(&hot, &hot.key("queue"), TYPES[0]).await;
    refused(&hot, "queue", hot.redis.enqueue(&event("a", 5))).await;
    let _: i64 = hot.run(&[b"DEL", hot.key("queue").as_bytes()]).await;
    assert!(matches!(hot.redis.enqueue(&event("a", 5)).await, Ok(Enqueued::Accepted { .. })));
}

// One thread: all enqueue before the first call is answered, so most go together.
#[tokio::test]
async fn of_events_that_go_together_only_those_whose_own_keys_are_damaged_fail() {
    let hot = Hot::private().await;
    let bad = ScopeRef::new("team", "bad").unwrap();
    let mut tried = 0;
    let ids: Vec<String> = (0..30).map(|n| format!("r{n}")).collect();
    let mut buckets = Vec::new();
    for id in &ids {
        buckets.push(seen_key(&hot, id).await.0);
    }
    let bucket = &buckets[17];
    // Ids that share a bucket share its fate: here none does.
    assert_eq!(buckets.iter().filter(|other| *other == bucket).count(), 1);
    for command in TYPES.iter().filter(|command| command[0] != b"HSET") {
        let _: String = hot.run(&[b"FLUSHALL"]).await;
        hot.redis.enqueue(&charged("first", Some(5), vec![bad.clone(), team()])).await.unwrap();
        replace(&hot, bucket, command).await;
        set_field(&hot, &hot.key("hot"), b"team/bad", b"nonsense").await;
        let before = (calls(&hot).await, hot.redis.pending(&team()).await.unwrap());
        let events: Vec<_> = ids
            .iter()
            .enumerate()
            .map(|(n, id)| charged(id, Some(5), vec![if n % 10 == 4 { bad.clone() } else { team() }]))
            .collect();
        let answers =
            futures_util::future::join_all(events.iter().map(|event| hot.redis.enqueue(event))).await;
        for (n, answer) in answers.iter().enumerate() {
            match answer {
                Err(LiveRedisError::Damaged(what)) if n == 17 => {
                    assert!(what.contains("another type"), "{what}");
                }
                Err(LiveRedisError::Damaged(what)) if n % 10 == 4 => {
                    assert!(what.contains("team/bad"), "{what}");
                }
                Ok(Enqueued::Accepted { .. }) if n != 17 && n % 10 != 4 => {}
                other => panic!("{n}: {other:?}"),
            }
            tried += 1;
        }
        assert!(calls(&hot).await - before.0 < 10, "thirty events go together in a few calls");
        let charged = Usd::from_picos(26 * 5);
        assert_eq!(hot.redis.pending(&team()).await.unwrap(), before.1.checked_add(charged).unwrap());
        let _: i64 = hot.run(&[b"DEL", bucket.as_bytes()]).await;
        assert!(
            matches!(hot.redis.enqueue(&events[17]).await, Ok(Enqueued::Accepted { .. })),
            "its id was not claimed"
        );
    }
    println!("{tried} events in micro-batches with damage tried");
}
