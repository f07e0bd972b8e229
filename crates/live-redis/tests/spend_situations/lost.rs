//! Spend that others lost.

use std::collections::BTreeSet;

use live_redis::LiveRedisError;
use spend_queue::{Acked, Enqueued, Index, QueueError, RequestDigest, SpendEvent, SpendQueue, Usd};

use crate::common::{Hot, event, limit, now, shard, team};
use crate::{pending, scope};

#[tokio::test]
async fn an_empty_id_is_refused_and_a_reused_one_is_a_visible_conflict() {
    let hot = Hot::shared().await;
    let empty = SpendEvent::new("", "m", vec![team()]);
    assert!(matches!(hot.redis.enqueue_spend(&empty, now()).await, Err(LiveRedisError::Event(_))));
    let first = SpendEvent { cost: Some(Usd::from_picos(5)), ..SpendEvent::new("r", "m", vec![team()]) };
    hot.redis.enqueue_spend(&first, now()).await.unwrap();
    let kept = hot.list().await;
    let others = [
        SpendEvent { cost: Some(Usd::from_picos(6)), ..first.clone() },
        SpendEvent { cost: None, ..first.clone() },
        SpendEvent { prompt_tokens: 1, ..first.clone() },
        SpendEvent { scopes: vec![scope("team/other")], ..first.clone() },
        SpendEvent { started_at: Some(now()), ..first.clone() },
        SpendEvent { cache_hit: true, ..first.clone() },
    ];
    for queued in [true, false] {
        if !queued {
            let all = hot.redis.peek(shard(), limit(9)).await.unwrap().receipt().unwrap();
            hot.redis.ack(&all).await.unwrap();
        }
        for other in &others {
            assert_eq!(hot.redis.enqueue_spend(other, now()).await, Ok(Enqueued::Conflict), "{other:?}");
        }
        assert_eq!(hot.redis.enqueue_spend(&first, now()).await, Ok(Enqueued::Duplicate));
        assert_eq!(hot.list().await, if queued { kept.clone() } else { Vec::new() });
        assert_eq!(pending(&hot, "team/t").await, if queued { 5 } else { 0 });
    }
}

#[tokio::test]
async fn a_queue_of_another_type_is_an_error_that_claims_no_id() {
    let hot = Hot::private().await;
    let wrong: [&[&[u8]]; 3] = [&[b"SET", b"x"], &[b"SADD", b"x"], &[b"HSET", b"f", b"x"]];
    for what in ["queue", "state", "hot", "count", "since", "since:amount"] {
        for (n, words) in wrong.iter().enumerate() {
            // A hash is what these are.
            if n == 2 && !["queue", "since"].contains(&what) {
                continue;
            }
            let id = format!("{what}{n}");
            let mut event = SpendEvent::new(&id, "m", vec![scope("organization/o")]);
            (event.cost, event.started_at) = (Some(Usd::from_picos(5)), Some(now()));
            hot.plant(what, words).await;
            let error = hot.unchanged(hot.redis.enqueue_spend(&event, now())).await;
            assert!(!error.is_transient(), "{error}");
            let _: i64 = hot.run(&[b"DEL", hot.key(what).as_bytes()]).await;
            let again = hot.redis.enqueue_spend(&event, now()).await;
            assert!(matches!(again, Ok(Enqueued::Accepted { .. })), "{id}: {again:?}");
            let _: String = hot.run(&[b"FLUSHALL"]).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_flushers_of_one_head_under_pushes_take_each_entry_once() {
    const CALLS: usize = 600;
    let hot = Hot::shared().await;
    let mut tasks = tokio::task::JoinSet::new();
    for flusher in 0..3_u32 {
        let redis = hot.another(|options| options).await;
        tasks.spawn(async move {
            let (mut taken, mut lost) = (Vec::new(), 0);
            loop {
                let batch = redis.peek(shard(), limit(5 + flusher)).await.unwrap();
                if batch.entries.last().is_some_and(|last| last.event.request_id == "end") {
                    return (taken, lost);
                }
                let Some(receipt) = batch.receipt() else { continue };
                match redis.ack(&receipt).await.unwrap() {
                    Acked::Done { short_counters, .. } => {
                        assert_eq!(short_counters, 0);
                        taken.extend(batch.entries.into_iter().map(|entry| entry.event.request_id));
                    }
                    Acked::Changed => lost += 1,
                }
            }
        });
    }
    for n in 0..CALLS {
        hot.redis.enqueue(&event(&format!("r{n}"), 5)).await.unwrap();
    }
    hot.redis.enqueue(&event("end", 5)).await.unwrap();
    let done = tasks.join_all().await;
    let mut ids: Vec<String> = done.iter().flat_map(|(taken, _)| taken.clone()).collect();
    let left = hot.redis.peek(shard(), limit(100)).await.unwrap();
    ids.extend(left.entries.iter().map(|entry| entry.event.request_id.clone()));
    let distinct: BTreeSet<_> = ids.iter().collect();
    assert_eq!((ids.len(), distinct.len()), (CALLS + 1, CALLS + 1), "each once");
    assert_eq!(pending(&hot, "team/t").await, 5 * i128::try_from(left.entries.len()).unwrap());
    println!(
        "{} acknowledgements came second and changed nothing",
        done.iter().map(|(_, lost)| lost).sum::<u64>()
    );
}

#[tokio::test]
async fn an_acknowledgement_takes_nothing_that_stands_between_copies_of_its_ends() {
    let hot = Hot::private().await;
    for id in ["a", "b", "c"] {
        hot.redis.enqueue(&event(id, 5)).await.unwrap();
    }
    let committed = hot.redis.peek(shard(), limit(3)).await.unwrap().receipt().unwrap();
    let (key, ends) = (hot.key("queue"), hot.list().await);
    // Somebody restores what is there, and gateways go on.
    let _: u64 = hot.run(&[b"RPUSH", key.as_bytes(), &ends[0]]).await;
    hot.redis.enqueue(&event("new", 7)).await.unwrap();
    let _: u64 = hot.run(&[b"RPUSH", key.as_bytes(), &ends[2]]).await;
    assert!(matches!(hot.redis.ack(&committed).await, Ok(Acked::Done { depth: 3, .. })));
    let (left, digest) = (hot.list().await, hot.digest().await);
    assert_eq!((&left[0], &left[2]), (&ends[0], &ends[2]));
    for _ in 0..2 {
        assert_eq!(hot.redis.ack(&committed).await, Ok(Acked::Changed));
    }
    assert_eq!(hot.digest().await, digest);
}

#[tokio::test]
async fn an_entry_that_replaced_one_in_the_middle_is_not_taken_although_the_index_is_proven() {
    let hot = Hot::private().await;
    for id in ["a", "b", "c", "d"] {
        hot.redis.enqueue(&event(id, 5)).await.unwrap();
    }
    let batch = hot.redis.peek(shard(), limit(3)).await.unwrap();
    let link = batch.entries[1].link.unwrap();
    let other = event("other", 900).entry(link.seq, link.chain);
    let _: String = hot.run(&[b"LSET", hot.key("queue").as_bytes(), b"1", other.as_bytes()]).await;
    assert_eq!(hot.redis.peek(shard(), limit(1)).await.unwrap().index, Index::Proven);
    let digest = hot.digest().await;
    assert_eq!(hot.redis.ack(&batch.receipt().unwrap()).await, Ok(Acked::Changed));
    assert_eq!(hot.digest().await, digest);
}

#[tokio::test]
async fn a_remembered_id_takes_at_most_28_bytes() {
    /// The part of all ids that is looked at: those whose digest begins with twelve zero bits.
    const PART: usize = 4_096;
    // A short prefix, as deployments have; it is part of what is measured.
    let hot = Hot::private().await;
    let ids = (0..1_000_000).map(|n| format!("chatcmpl-{n}"));
    let ids: Vec<String> = ids
        .filter(|id| matches!(RequestDigest::of(id).as_bytes(), [0, second, ..] if second >> 4 == 0))
        .collect();
    assert!((200..300).contains(&ids.len()), "{} of a million, about one in {PART}", ids.len());
    for id in &ids {
        hot.redis.enqueue(&event(id, 5)).await.unwrap();
    }
    let (mut bytes, mut remembered) = (0, 0);
    for key in hot.keys().await.iter().filter(|key| key.contains(":seen:")) {
        remembered += hot.run::<usize>(&[b"HLEN", key.as_bytes()]).await;
        bytes += hot.run::<usize>(&[b"MEMORY", b"USAGE", key.as_bytes()]).await;
    }
    assert_eq!(remembered, ids.len());
    println!("{bytes} bytes for {remembered} remembered ids, with the density of a million");
    assert!(bytes <= 28 * ids.len(), "{bytes} bytes for {} ids", ids.len());
}
