//! A Redis that has no memory left: it takes nothing in, changes nothing, and drains.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod common;

use common::{Hot, event, limit, now, shard, team};
use live_redis::{CallError, LiveRedisError, OperatorNote};
use spend_queue::{Acked, Index, PendingSpend, QueueError, Reindexed, SpendQueue, Usd};

async fn set_memory(hot: &Hot, bytes: &[u8]) {
    let _: String = hot.run(&[b"CONFIG", b"SET", b"maxmemory", bytes]).await;
}

fn is_full(error: &LiveRedisError) -> bool {
    matches!(error, LiveRedisError::Call(CallError::Unavailable(_))) && error.is_transient()
}

#[tokio::test]
async fn what_would_write_is_refused_and_strict_reads_go_on() {
    let hot = Hot::private().await;
    for id in ["a", "b", "c"] {
        hot.redis.enqueue(&event(id, 5)).await.unwrap();
    }
    let note = OperatorNote { reason: "test".into(), at: now() };
    let head = hot.list().await[0].clone();
    assert_eq!(hot.redis.quarantine(shard(), &head, &note).await, Ok(Some(2)));
    let aside = hot.redis.quarantined(shard(), 10).await.unwrap();
    set_memory(&hot, b"1").await;

    assert!(is_full(&hot.unchanged(hot.redis.reindex(shard())).await));
    let head = &hot.list().await[0];
    assert!(is_full(&hot.unchanged(hot.redis.quarantine(shard(), head, &note)).await));
    assert!(is_full(&hot.unchanged(hot.redis.restore(shard(), &aside[0])).await));
    assert!(is_full(&hot.unchanged(hot.redis.enqueue(&event("d", 5))).await));
    assert_eq!(
        hot.redis.pending(&team()).await,
        Ok(Usd::from_picos(10)),
        "from the entries: the index is in doubt"
    );
    assert_eq!(hot.redis.quarantined(shard(), 10).await.unwrap(), aside);
    assert_eq!(hot.redis.backlog(shard()).await.unwrap().entries, 2);

    set_memory(&hot, b"0").await;
    assert_eq!(hot.redis.restore(shard(), &aside[0]).await, Ok(Some(3)));
    assert_eq!(hot.redis.reindex(shard()).await, Ok(Reindexed::Rebuilt { entries: 3 }));
    assert!(matches!(
        hot.redis.enqueue(&event("d", 5)).await,
        Ok(spend_queue::Enqueued::Accepted { seq: 4, .. })
    ));
}

#[tokio::test]
async fn a_full_queue_drains_whether_or_not_its_index_is_proven() {
    for doubtful in [false, true] {
        let hot = Hot::private().await;
        for n in 0..30 {
            hot.redis.enqueue(&event(&n.to_string(), 5)).await.unwrap();
        }
        if doubtful {
            let _: Vec<u8> = hot.run(&[b"LPOP", hot.key("queue").as_bytes()]).await;
        }
        set_memory(&hot, b"1").await;
        loop {
            let batch = hot.redis.peek(shard(), limit(7)).await.unwrap();
            let Some(receipt) = batch.receipt() else { break };
            assert_eq!(batch.index == Index::Doubtful, doubtful);
            assert!(matches!(hot.redis.ack(&receipt).await, Ok(Acked::Done { .. })));
        }
        assert_eq!(hot.redis.depth(shard()).await, Ok(0));
        assert_eq!(hot.redis.hot_spend(&team()).await, Usd::ZERO);
        set_memory(&hot, b"0").await;
        hot.redis.enqueue(&event("after", 5)).await.unwrap();
        assert_eq!(hot.redis.peek(shard(), limit(1)).await.unwrap().index, Index::Proven);
    }
}
