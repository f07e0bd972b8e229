//! Spend that others counted twice, or on the wrong account.

use std::time::Duration;

use live_redis::{CallError, LiveRedisError};
use spend_queue::{
    Acked, Enqueued, Index, PendingSpend, QueueError, Reindexed, ScopeRef, SpendEvent, SpendQueue, Usd,
};

use crate::common::{Hot, charged, event, limit, now, shard, team};
use crate::{pending, scope};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn six_readers_of_a_cold_index_see_the_exact_amount() {
    let hot = Hot::shared().await;
    for n in 0..200 {
        hot.redis.enqueue(&event(&format!("r{n}"), 5)).await.unwrap();
    }
    for key in ["hot", "count"] {
        let _: i64 = hot.run(&[b"DEL", hot.key(key).as_bytes()]).await;
    }
    let mut readers = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let client = hot.another(|options| options).await;
        readers.spawn(async move {
            for _ in 0..20 {
                assert_eq!(client.pending(&team()).await, Ok(Usd::from_picos(1_000)));
                assert_eq!(client.pending_key("k").await, Ok(Usd::from_picos(1_000)));
            }
        });
    }
    tokio::task::yield_now().await;
    assert_eq!(hot.redis.reindex(shard()).await, Ok(Reindexed::Rebuilt { entries: 200 }));
    readers.join_all().await;
    assert_eq!(hot.redis.hot_spend(&team()).await, Usd::from_picos(1_000), "seeded once");
    assert_eq!(hot.redis.peek(shard(), limit(1)).await.unwrap().index, Index::Proven);
}

#[tokio::test]
async fn an_enqueue_whose_reply_was_lost_counts_once_when_it_is_sent_again() {
    let hot = Hot::private().await;
    let hasty = hot.another(|options| options.with_deadline(Duration::from_millis(50))).await;
    for n in 0..5 {
        let event = event(&format!("r{n}"), 5);
        let _: String = hot.run(&[b"CLIENT", b"PAUSE", b"60000", b"WRITE"]).await;
        let lost = hasty.enqueue(&event).await.unwrap_err();
        assert!(matches!(lost, LiveRedisError::Call(CallError::Timeout(_))) && lost.is_transient(), "{lost}");
        let _: String = hot.run(&[b"CLIENT", b"UNPAUSE"]).await;
        let again = hot.redis.enqueue(&event).await.unwrap();
        assert!(matches!(again, Enqueued::Accepted { .. } | Enqueued::Duplicate), "{again:?}");
        // The first call may still run; whichever of the two is later is a duplicate.
        assert_eq!(hot.redis.enqueue(&event).await, Ok(Enqueued::Duplicate));
        assert_eq!(hasty.enqueue(&event).await, Ok(Enqueued::Duplicate));
        assert_eq!(hot.list().await.len(), n + 1);
        assert_eq!(pending(&hot, "team/t").await, 5 * (i128::try_from(n).unwrap() + 1));
    }
}

#[tokio::test]
async fn only_listed_scopes_are_charged() {
    let hot = Hot::shared().await;
    let all = ["organization/o", "team/t", "project/p", "user/u", "key/k"];
    for mask in 1..32_u32 {
        let listed: Vec<_> = (0..5).filter(|bit| mask & (1 << bit) != 0).collect();
        let scopes = listed.iter().map(|n| scope(all[*n])).collect();
        // The event names everybody; only its scopes are charged.
        let mut event = SpendEvent::new(format!("r{mask}"), "m", scopes);
        event.cost = Some(Usd::from_picos(7));
        (event.organization_id, event.team_id) = (Some("o".into()), Some("t".into()));
        (event.project_id, event.user_id, event.key_id) =
            (Some("p".into()), Some("u".into()), Some("k".into()));
        hot.redis.enqueue_spend(&event, now()).await.unwrap();
        for (n, text) in all.iter().enumerate() {
            assert_eq!(
                pending(&hot, text).await,
                if listed.contains(&n) { 7 } else { 0 },
                "{listed:?} {text}"
            );
        }
        let receipt = hot.redis.peek(shard(), limit(1)).await.unwrap().receipt().unwrap();
        assert_eq!(hot.redis.ack(&receipt).await, Ok(Acked::Done { depth: 0, short_counters: 0 }));
    }
}

#[tokio::test]
async fn a_rotated_secret_keeps_its_spend() {
    let hot = Hot::shared().await;
    // The gateway looks a secret up and charges the id of its row; which secret it was, the event does not know.
    let of_secret = |_secret: &str| ScopeRef::new("key", "row-7").unwrap();
    for (id, secret) in [("a", "before"), ("b", "after"), ("c", "after another rotation")] {
        hot.redis.enqueue(&charged(id, Some(5), vec![of_secret(secret)])).await.unwrap();
    }
    assert_eq!(hot.redis.pending_key("row-7").await, Ok(Usd::from_picos(15)));
    let fields: Vec<String> = hot.run(&[b"HKEYS", hot.key("hot").as_bytes()]).await;
    assert_eq!(fields, ["key/row-7"]);
}
