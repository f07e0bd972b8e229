//! How long request ids are remembered, and what a retry after that does.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod common;

use std::collections::HashMap;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use common::{Hot, limit, now, shard, team};
use live_redis::DedupRetention;
use spend_queue::{Acked, EncodedEvent, Enqueued, PendingSpend, ScopeRef, SpendEvent, SpendQueue, Usd};

const LENGTH: Duration = Duration::from_secs(60);

/// A call of five picodollars, encoded at a time.
fn encoded(id: &str, model: &str, at: DateTime<Utc>) -> EncodedEvent {
    let mut event = SpendEvent::new(id, model, vec![team(), ScopeRef::new("organization", "o").unwrap()]);
    event.cost = Some(Usd::from_picos(5));
    event.encode(at).unwrap()
}

async fn bounded() -> Hot {
    Hot::shared_with(|options| options.with_dedup_retention(DedupRetention::AtLeast(LENGTH))).await
}

/// A time in the middle of a generation.
fn begin() -> DateTime<Utc> {
    assert_eq!(now().timestamp() % 60, 30);
    now()
}

#[tokio::test]
async fn a_retry_within_the_retention_is_recognised_in_every_phase_of_a_generation() {
    let hot = bounded().await;
    let mut tried = 0;
    for phase in [0, 1, 29_999, 30_000, 59_999] {
        for later in [0, 1, 29_999, 30_001, 59_999, 60_000] {
            let id = format!("{phase}-{later}");
            let first = begin() + TimeDelta::milliseconds(phase);
            let retry = first + TimeDelta::milliseconds(later);
            assert!(matches!(
                hot.redis.enqueue(&encoded(&id, "m", first)).await,
                Ok(Enqueued::Accepted { .. })
            ));
            assert_eq!(hot.redis.enqueue(&encoded(&id, "m", retry)).await, Ok(Enqueued::Duplicate), "{id}");
            assert_eq!(hot.redis.enqueue(&encoded(&id, "n", retry)).await, Ok(Enqueued::Conflict), "{id}");
            tried += 1;
        }
    }
    assert_eq!(hot.list().await.len(), tried);
}

#[tokio::test]
async fn a_retry_by_a_host_whose_clock_is_behind_is_recognised_across_the_edge_of_a_generation() {
    let hot = bounded().await;
    let edge = begin() + TimeDelta::seconds(30);
    for (n, behind) in [1, 500, 2_000, 59_999].into_iter().enumerate() {
        let id = n.to_string();
        hot.redis.enqueue(&encoded(&id, "m", edge)).await.unwrap();
        let retry = edge - TimeDelta::milliseconds(behind);
        assert_eq!(
            hot.redis.enqueue(&encoded(&id, "m", retry)).await,
            Ok(Enqueued::Duplicate),
            "{behind} ms"
        );
    }
}

#[tokio::test]
async fn an_id_twice_in_one_call_is_recognised_across_the_edge_of_a_generation() {
    let hot = bounded().await;
    let edge = begin() + TimeDelta::seconds(30);
    let events: Vec<_> =
        (0..20).map(|n| encoded("one", "m", edge + TimeDelta::milliseconds(n % 2 * 2 - 1))).collect();
    let answers = futures_util::future::join_all(events.iter().map(|event| hot.redis.enqueue(event))).await;
    let accepted = answers.iter().filter(|answer| matches!(answer, Ok(Enqueued::Accepted { .. }))).count();
    let repeated = answers.iter().filter(|answer| **answer == Ok(Enqueued::Duplicate)).count();
    assert_eq!((accepted, repeated), (1, 19));
}

#[tokio::test]
async fn every_bounded_memory_expires_and_a_permanent_one_never_does() {
    let hot = bounded().await;
    let permanent = Hot::shared().await;
    for n in 0..50 {
        let event = encoded(&n.to_string(), "m", begin() + TimeDelta::seconds(n * 7));
        hot.redis.enqueue(&event).await.unwrap();
        permanent.redis.enqueue(&event).await.unwrap();
    }
    let mut memories = 0;
    for key in hot.keys().await.iter().filter(|key| key.contains(":seen:")) {
        let left: i64 = hot.run(&[b"PTTL", key.as_bytes()]).await;
        assert!((100_000..=120_000).contains(&left), "{key}: {left} ms");
        memories += 1;
    }
    assert!(memories > 40, "{memories}");
    let what = hot.key("");
    let mut lasting = hot.lasting().await;
    lasting.sort();
    let lasting: Vec<_> = lasting.iter().map(|key| &key[what.len()..]).collect();
    assert_eq!(lasting, ["count", "hot", "queue", "state"], "bills stay until they are acknowledged");
    let seen = permanent.keys().await.into_iter().filter(|key| key.contains(":seen:"));
    for key in seen {
        assert!(permanent.lasting().await.contains(&key), "{key}");
    }
}

#[tokio::test]
async fn a_retry_after_the_retention_is_queued_again_and_settled_once() {
    let hot = bounded().await;
    let late = begin() + TimeDelta::seconds(121);
    let mut ledger: HashMap<String, Usd> = HashMap::new();
    assert_eq!(
        hot.redis.enqueue(&encoded("r", "m", begin())).await,
        Ok(Enqueued::Accepted { seq: 1, depth: 1 })
    );
    assert_eq!(
        hot.redis.enqueue(&encoded("r", "m", late)).await,
        Ok(Enqueued::Accepted { seq: 2, depth: 2 })
    );
    // More than is owed, never less, until the flusher has been there.
    assert_eq!(hot.redis.pending(&team()).await, Ok(Usd::from_picos(10)));
    assert_eq!(hot.redis.hot_spend(&team()).await, Usd::from_picos(10));
    for (left, pending) in [(1, 5), (0, 0)] {
        let batch = hot.redis.peek(shard(), limit(1)).await.unwrap();
        let event = &batch.entries[0].event;
        ledger.entry(event.request_id.clone()).or_insert_with(|| event.cost.unwrap());
        let done = hot.redis.ack(&batch.receipt().unwrap()).await;
        assert_eq!(done, Ok(Acked::Done { depth: left, short_counters: 0 }));
        assert_eq!(hot.redis.pending(&team()).await, Ok(Usd::from_picos(pending)));
    }
    assert_eq!(Usd::checked_sum(ledger.into_values()), Some(Usd::from_picos(5)));
}

#[tokio::test]
async fn a_retention_that_is_shorter_than_clocks_can_bear_is_lengthened() {
    let short = DedupRetention::AtLeast(Duration::from_millis(1));
    let hot = Hot::shared_with(|options| options.with_dedup_retention(short)).await;
    hot.redis.enqueue(&encoded("r", "m", begin())).await.unwrap();
    let retry = begin() + TimeDelta::seconds(60);
    assert_eq!(hot.redis.enqueue(&encoded("r", "m", retry)).await, Ok(Enqueued::Duplicate));
}
