//! A queue of several shards: all of them drain, strict reads add them up, and all hosts agree on how many there are.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod common;

use std::collections::BTreeSet;

use common::{Hot, limit, now};
use live_redis::{LiveRedis, LiveRedisError, Options, Step};
use spend_queue::{
    Acked, EncodedEvent, Enqueued, PendingSpend, QueueError, Reindexed, ScopeRef, Shard, ShardCount,
    SpendEvent, SpendQueue, Usd,
};

fn count(shards: u16) -> ShardCount {
    ShardCount::new(shards).unwrap()
}

fn everywhere() -> ScopeRef {
    ScopeRef::new("provider", "all").unwrap()
}

fn organization(n: u32) -> ScopeRef {
    ScopeRef::new("organization", format!("o{n}")).unwrap()
}

/// A call of an organization, also charged to a scope that all of them share.
fn event(id: &str, of: u32, picos: i128) -> EncodedEvent {
    let mut event = SpendEvent::new(id, "m", vec![organization(of), everywhere()]);
    event.cost = Some(Usd::from_picos(picos));
    event.organization_id = Some(format!("o{of}"));
    event.started_at = Some(now());
    event.encode(now()).unwrap()
}

async fn four() -> Hot {
    Hot::shared_with(|options| options.with_shards(count(4))).await
}

#[tokio::test]
async fn every_shard_drains_and_strict_reads_add_them_up() {
    let hot = four().await;
    let mut used = BTreeSet::new();
    for n in 0..40 {
        let event = event(&format!("r{n}"), n, i128::from(n) + 1);
        used.insert(count(4).shard_of(event.partition()));
        assert!(matches!(hot.redis.enqueue(&event).await, Ok(Enqueued::Accepted { .. })));
        assert_eq!(hot.redis.enqueue(&event).await, Ok(Enqueued::Duplicate));
    }
    assert_eq!(used.len(), 4);
    let mut left = (1..=40).sum::<i128>();
    assert_eq!(hot.redis.pending(&everywhere()).await, Ok(Usd::from_picos(left)));
    assert_eq!(hot.redis.hot_spend(&everywhere()).await, Usd::from_picos(left));
    assert_eq!(hot.redis.pending_since("o7", now()).await, Ok(Usd::from_picos(8)));
    assert_eq!(hot.redis.sources().len(), 4);
    for shard in hot.redis.sources() {
        while hot.redis.depth(shard).await.unwrap() > 0 {
            let batch = hot.redis.peek(shard, limit(3)).await.unwrap();
            left -= batch.entries.iter().map(|entry| entry.event.cost.unwrap().picos()).sum::<i128>();
            assert!(matches!(
                hot.redis.ack(&batch.receipt().unwrap()).await,
                Ok(Acked::Done { short_counters: 0, .. })
            ));
            assert_eq!(hot.redis.pending(&everywhere()).await, Ok(Usd::from_picos(left)));
        }
    }
    assert_eq!(left, 0);
    let kept = hot.keys().await;
    assert!(kept.iter().all(|key| key.contains(":seen:") || key.ends_with(":state")), "{kept:?}");
}

#[tokio::test]
async fn a_doubt_in_one_shard_is_no_doubt_in_the_sum() {
    let hot = four().await;
    for n in 0..40 {
        hot.redis.enqueue(&event(&format!("r{n}"), n, 1)).await.unwrap();
    }
    let shard = count(4).shard_of("organization/o0");
    let head = hot.redis.peek(shard, limit(1)).await.unwrap().entries[0].raw().to_vec();
    let list = format!("{}:{{{shard}}}:queue", hot.prefix);
    let _: Vec<u8> = hot.run(&[b"LPOP", list.as_bytes()]).await;
    assert_eq!(hot.redis.pending(&everywhere()).await, Ok(Usd::from_picos(39)));
    let _: u64 = hot.run(&[b"LPUSH", list.as_bytes(), b"garbage"]).await;
    let error = hot.redis.pending(&everywhere()).await.unwrap_err();
    assert!(matches!(error, LiveRedisError::Damaged(_)) && !error.is_transient(), "{error}");
    let _: String = hot.run(&[b"LSET", list.as_bytes(), b"0", &head]).await;
    assert_eq!(hot.redis.pending(&everywhere()).await, Ok(Usd::from_picos(40)));
    for other in hot.redis.sources() {
        let got = hot.redis.reindex(other).await.unwrap();
        assert_eq!(got, Reindexed::Proven, "{other}: the list is again what its scripts made");
    }
}

#[tokio::test]
async fn a_client_with_another_count_is_refused_at_open() {
    let hot = four().await;
    hot.redis.enqueue(&event("a", 0, 1)).await.unwrap();
    for other in [1, 2, 3, 5, 16_384] {
        let options: Options = hot.redis.options().clone().with_shards(count(other));
        let test = devstack::redis().unwrap();
        let refused = LiveRedis::open_with(test.url(), options).await.err().unwrap();
        assert_eq!(refused.step, Step::Options);
        let text = format!("has 4 shards, this client was set up for {other}");
        assert!(refused.to_string().contains(&text), "{refused}");
    }
}

#[tokio::test]
async fn a_client_that_opened_before_the_count_was_recorded_is_refused_at_enqueue() {
    for (first, second) in [(4, 1), (1, 4), (4, 2), (2, 4), (3, 16_384)] {
        let hot = Hot::shared_with(|options| options.with_shards(count(first))).await;
        let late = hot.another(|options| options.with_shards(count(second))).await;
        hot.redis.enqueue(&event("a", 0, 1)).await.unwrap();
        let before = hot.keys().await.len();
        for n in 0..10 {
            let refused = late.enqueue(&event(&format!("late{n}"), n, 1)).await.unwrap_err();
            assert!(matches!(refused, LiveRedisError::ShardCount(_)) && !refused.is_transient(), "{refused}");
        }
        assert_eq!(hot.keys().await.len(), before, "{first} then {second}: nothing was written");
        hot.redis.enqueue(&event("b", 1, 1)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_different_counts_that_start_at_once_leave_entries_of_one_count_only() {
    for round in 0..20 {
        let hot = Hot::shared_with(|options| options.with_shards(count(4))).await;
        let other =
            hot.another(|options| options.with_shards(count(if round % 2 == 0 { 1 } else { 3 }))).await;
        let mut race = tokio::task::JoinSet::new();
        for n in 0..12 {
            let (name, client) =
                if n % 2 == 0 { ("four", hot.redis.clone()) } else { ("other", other.clone()) };
            race.spawn(async move { (name, client.enqueue(&event(&format!("{name}{n}"), n, 1)).await) });
        }
        let mut winners = BTreeSet::new();
        let mut accepted = 0;
        while let Some(answer) = race.join_next().await {
            match answer.unwrap() {
                (name, Ok(_)) => {
                    winners.insert(name);
                    accepted += 1;
                }
                (_, Err(error)) => assert!(matches!(error, LiveRedisError::ShardCount(_)), "{error}"),
            }
        }
        assert_eq!((winners.len(), accepted), (1, 6), "{winners:?}");
        let winner = if winners.contains("four") { &hot.redis } else { &other };
        let mut depth = 0;
        for shard in winner.sources() {
            depth += winner.depth(shard).await.unwrap();
        }
        assert_eq!(depth, 6);
    }
}

#[tokio::test]
async fn a_shard_that_another_count_would_have_is_refused_by_the_script_too() {
    let hot = four().await;
    hot.redis.enqueue(&event("a", 0, 1)).await.unwrap();
    let shard: Shard = count(4).shard_of("organization/o0");
    let state = format!("{}:{{{shard}}}:state", hot.prefix);
    let _: u64 = hot.run(&[b"HSET", state.as_bytes(), b"shards", b"9"]).await;
    let refused = hot.redis.enqueue(&event("b", 0, 1)).await.unwrap_err();
    assert!(matches!(refused, LiveRedisError::ShardCount(_)), "{refused}");
    assert_eq!(hot.redis.depth(shard).await, Ok(1));
}
