//! When the index is in doubt, the entries themselves are read: every event that can be queued can be read there too, and
//! what another hand put in place of one is noticed.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod common;

use common::{Hot, charged, limit, now, shard, team};
use live_redis::LiveRedisError;
use serde_json::{Value, json};
use spend_queue::{Entry, Index, PendingSpend, Reindexed, ScopeRef, SpendEvent, SpendQueue, Usd};

/// What JSON readers are known to differ on.
fn odd_values() -> Vec<Value> {
    let nested = |wrap: fn(Value) -> Value| (0..64).fold(json!(1), |inner, _| wrap(inner));
    vec![
        json!(null),
        json!([]),
        json!({}),
        json!([[], {}, null]),
        json!({"": ""}),
        json!({"spend_pusd": 1, "spend": "0.1", "scopes": ["team/x"], "start": "x", "seq": 9}),
        json!("\",\"spend_pusd\":1,\"spend\":\"9\","),
        json!("}{][\\\"/\u{8}\u{c}\n\r\t\u{1}\u{1f}\u{7f}\u{85}\u{2028}\u{feff}\u{10ffff}é"),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(f64::MAX),
        json!(f64::MIN_POSITIVE),
        json!(-0.0),
        json!(1e-320),
        json!("NaN"),
        json!("0x10"),
        json!("x".repeat(60_000)),
        nested(|inner| json!([inner])),
        nested(|inner| json!({ "a": inner })),
        json!((0..5_000).collect::<Vec<_>>()),
    ]
}

fn odd_scopes() -> Vec<ScopeRef> {
    [
        ("k/ind", "a/b"),
        ("%", "%2F"),
        ("organization", "\""),
        ("organization", "\\u0041"),
        ("é", "ü \u{feff}"),
        (" ", " "),
    ]
    .map(|(kind, id)| ScopeRef::new(kind, id).unwrap())
    .into()
}

#[tokio::test]
async fn every_event_that_can_be_queued_can_be_read_from_the_entries() {
    let hot = Hot::shared().await;
    let (mut sum, mut events) = (0, 0);
    let doubt = async || {
        let _: i64 = hot.run(&[b"HSET", hot.key("state").as_bytes(), b"doubt", b"test"]).await;
    };
    for value in odd_values() {
        for field in ["metadata", "extra", "neither"] {
            events += 1;
            let mut scopes = odd_scopes();
            scopes.push(team());
            let mut event = SpendEvent::new(format!("r{events}\" \\ é"), "m\"\\/", scopes);
            event.cost = Some(Usd::from_picos(events));
            event.started_at = Some(now());
            match field {
                "metadata" => drop(event.metadata.insert("odd \"name\"".into(), value.clone())),
                "extra" => drop(event.extra.insert("later\\".into(), value.clone())),
                _ => event.status = "\"}\\".into(),
            }
            hot.redis.enqueue_spend(&event, now()).await.unwrap();
            sum += events;
        }
    }
    doubt().await;
    for scope in odd_scopes().into_iter().chain([team()]) {
        assert_eq!(hot.redis.pending(&scope).await, Ok(Usd::from_picos(sum)), "{scope}");
    }
    for id in ["\"", "\\u0041"] {
        assert_eq!(hot.redis.pending_since(id, now()).await, Ok(Usd::from_picos(sum)), "{id}");
        let later = now() + chrono::TimeDelta::milliseconds(1);
        assert_eq!(hot.redis.pending_since(id, later).await, Ok(Usd::ZERO), "{id}");
    }
    let read = async |what: &str| -> std::collections::BTreeMap<String, String> {
        hot.run(&[b"HGETALL", hot.key(what).as_bytes()]).await
    };
    let before = (read("hot").await, read("count").await, read("since:amount").await);
    assert_eq!(
        hot.redis.reindex(shard()).await,
        Ok(Reindexed::Rebuilt { entries: u64::try_from(events).unwrap() })
    );
    assert_eq!(
        (read("hot").await, read("count").await, read("since:amount").await),
        before,
        "the same index again"
    );
    println!("{events} events with {} odd values read from their entries", odd_values().len());
}

#[tokio::test]
async fn what_another_hand_put_in_place_of_an_entry_is_doubted_when_it_comes_to_the_head() {
    let others: [fn(&Entry) -> Vec<u8>; 4] = [
        // Another amount, and a link that fits the entry behind it.
        |entry| {
            let link = entry.link.unwrap();
            charged("b", Some(900), vec![team()]).entry(link.seq, link.chain).into_bytes()
        },
        |entry| entry.raw()[..entry.raw().len() - 1].to_vec(),
        |_| b"garbage".to_vec(),
        |_| Vec::new(),
    ];
    for (n, other) in others.into_iter().enumerate() {
        let hot = Hot::shared().await;
        for (id, picos) in [("a", 1), ("b", 20), ("c", 300)] {
            hot.redis.enqueue(&charged(id, Some(picos), vec![team()])).await.unwrap();
        }
        let entries = hot.redis.peek(shard(), limit(3)).await.unwrap().entries;
        let first = hot.redis.peek(shard(), limit(1)).await.unwrap().receipt().unwrap();
        let _: String = hot.run(&[b"LSET", hot.key("queue").as_bytes(), b"1", &other(&entries[1])]).await;
        hot.redis.ack(&first).await.unwrap();
        let head = hot.redis.peek(shard(), limit(3)).await.unwrap();
        assert_eq!(head.index, Index::Doubtful, "{n}");
        match (n, hot.redis.pending(&team()).await) {
            (0, Ok(pending)) => assert_eq!(pending, Usd::from_picos(1_200), "what would be settled"),
            (1.., Err(LiveRedisError::Damaged(_))) => assert_eq!(head.receipt(), None),
            (_, other) => panic!("{n}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn an_index_that_no_counter_could_hold_is_not_made() {
    let hot = Hot::shared().await;
    let most = |id: &str| charged(id, Some(i64::MAX), vec![team()]);
    hot.redis.enqueue(&most("a")).await.unwrap();
    let head = hot.list().await.remove(0);
    let note = live_redis::OperatorNote { reason: "test".into(), at: now() };
    hot.redis.quarantine(shard(), &head, &note).await.unwrap();
    hot.redis.enqueue(&most("b")).await.unwrap();
    let aside = hot.redis.quarantined(shard(), 1).await.unwrap();
    hot.redis.restore(shard(), &aside[0]).await.unwrap();
    let full = hot.redis.reindex(shard()).await;
    assert!(matches!(full, Err(LiveRedisError::CounterFull(_))), "{full:?}");
    let twice = Usd::from_picos(i128::from(i64::MAX) * 2);
    assert_eq!(hot.redis.pending(&team()).await, Ok(twice), "from the entries, which have no bound");
    for depth in [1, 0] {
        let receipt = hot.redis.peek(shard(), limit(9)).await.unwrap().receipt().unwrap();
        assert_eq!(receipt.entries, 1, "a batch has a bound too");
        let done = hot.redis.ack(&receipt).await.unwrap();
        assert!(matches!(done, spend_queue::Acked::Done { depth: left, .. } if left == depth), "{done:?}");
    }
    assert_eq!(hot.redis.pending(&team()).await, Ok(Usd::ZERO));
}
