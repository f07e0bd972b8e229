//! The queue of an older deployment (entry format 1), with its gateways and flushers still running.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

#[path = "../common/mod.rs"]
mod common;
mod old;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use common::{Hot, charged, event, limit, now, shard, team};
use live_redis::LiveRedisError;
use old::{OldCall, deployment, drain, period, scope};
use spend_queue::{Acked, PendingQuery, PendingSpend, Shard, SpendQueue, Stop, Usd};

async fn pending(hot: &Hot, text: &str) -> i128 {
    hot.redis.pending(&scope(text)).await.unwrap().picos()
}

#[tokio::test]
async fn an_older_queue_is_counted_until_it_is_drained_and_leaves_no_counter() {
    let hot = deployment().await;
    for (n, spend) in ["0.000000000005", "0.000000000007", "0"].iter().enumerate() {
        old::enqueue(&hot.raw, &OldCall::new(format!("r{n}"), *spend)).await;
    }
    hot.redis.enqueue(&event("new", 100)).await.unwrap();
    for (text, picos) in
        [("organization/o", 12), ("user/u", 12), ("team/t", 112), ("key/k", 112), ("team/x", 0)]
    {
        assert_eq!(pending(&hot, text).await, picos, "{text}");
    }
    assert_eq!(hot.redis.pending_key("k").await, Ok(Usd::from_picos(112)));
    assert_eq!(hot.redis.pending_since("o", period()).await, Ok(Usd::from_picos(12)));
    assert_eq!(hot.redis.sources(), [shard(), Shard::OLDER]);
    assert_eq!(hot.redis.depth(Shard::OLDER).await, Ok(3));
    assert_eq!(old::counters(&hot).await.len(), 5);

    let taken = drain(&hot).await;
    let ids: Vec<_> = taken.iter().map(|entry| entry.event.request_id.as_str()).collect();
    assert_eq!(ids, ["r0", "r1", "r2"]);
    assert_eq!(pending(&hot, "organization/o").await, 0);
    assert_eq!(hot.redis.pending_key("k").await, Ok(Usd::from_picos(100)));
    assert_eq!(old::counters(&hot).await, Vec::<String>::new());
    assert_eq!(hot.redis.depth(shard()).await, Ok(1), "the new queue is another one");
}

#[tokio::test]
async fn an_acknowledgement_takes_exactly_its_batch_off_the_float_counters() {
    let hot = deployment().await;
    for n in 0..10 {
        old::enqueue(&hot.raw, &OldCall::new(format!("r{n}"), "0.1")).await;
    }
    let batch = hot.redis.peek(Shard::OLDER, limit(7)).await.unwrap();
    let receipt = batch.receipt().unwrap();
    assert_eq!(receipt.seqs, None);
    assert_eq!(hot.redis.ack(&receipt).await, Ok(Acked::Done { depth: 3, short_counters: 0 }));
    for counter in ["organization/o", "team/t", "user/u", "key/0ff"] {
        let left: f64 = hot.run(&[b"GET", format!("xhub:spend:{counter}").as_bytes()]).await;
        assert!((left - 0.3).abs() < 1e-12, "{counter} {left}");
    }
    assert_eq!(hot.redis.ack(&receipt).await, Ok(Acked::Changed), "a second one is a no-op");
    assert_eq!(hot.redis.depth(Shard::OLDER).await, Ok(3));
}

#[tokio::test]
async fn an_older_queue_that_changed_behind_its_head_is_not_trimmed() {
    let hot = deployment().await;
    for n in 0..3 {
        old::enqueue(&hot.raw, &OldCall::new(format!("r{n}"), "0.1")).await;
    }
    let receipt = hot.redis.peek(Shard::OLDER, limit(3)).await.unwrap().receipt().unwrap();
    let list = old::list();
    for place in ["1", "2"] {
        let before: String = hot.run(&[b"LINDEX", list.as_bytes(), place.as_bytes()]).await;
        let other = OldCall::new("another", "0.2").json();
        let _: String = hot.run(&[b"LSET", list.as_bytes(), place.as_bytes(), other.as_bytes()]).await;
        let digest = hot.digest().await;
        assert_eq!(hot.redis.ack(&receipt).await, Ok(Acked::Changed), "place {place}");
        assert_eq!(hot.digest().await, digest);
        let _: String = hot.run(&[b"LSET", list.as_bytes(), place.as_bytes(), before.as_bytes()]).await;
    }
    let _: String = hot.run(&[b"RPOPLPUSH", list.as_bytes(), list.as_bytes()]).await;
    assert_eq!(hot.redis.ack(&receipt).await, Ok(Acked::Changed), "another order");
}

/// A ledger that settles each request id once.
#[derive(Default)]
struct Ledger(Mutex<BTreeMap<String, i128>>);

impl Ledger {
    fn settle(&self, id: &str, picos: i128) {
        self.0.lock().unwrap().entry(id.to_owned()).or_insert(picos);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_gateways_and_flushers_beside_new_ones_settle_each_call_once() {
    const WRITERS: usize = 3;
    const CALLS: usize = 300;
    let hot = Arc::new(deployment().await);
    let ledger = Arc::new(Ledger::default());
    let written = Arc::new(tokio::sync::Semaphore::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let (hot, written) = (hot.clone(), written.clone());
        tasks.spawn(async move {
            for n in 0..CALLS {
                old::enqueue(&hot.raw, &OldCall::new(format!("w{writer}-{n}"), "0.000003")).await;
            }
            written.add_permits(1);
        });
    }
    let all = u32::try_from(WRITERS).unwrap();
    for flusher in 0..2_isize {
        let (hot, ledger, written) = (hot.clone(), ledger.clone(), written.clone());
        tasks.spawn(async move {
            loop {
                let finished = written.available_permits() == WRITERS;
                let batch = old::peek(&hot.raw, 5 + flusher * 8).await;
                for raw in &batch {
                    let entry: serde_json::Value = serde_json::from_str(raw).unwrap();
                    ledger.settle(entry["request_id"].as_str().unwrap(), 3_000_000);
                }
                if batch.is_empty() && finished {
                    return;
                }
                if !batch.is_empty() {
                    old::acknowledge(&hot.raw, &batch, i128::try_from(batch.len()).unwrap() * 3_000_000)
                        .await;
                }
                tokio::task::yield_now().await;
            }
        });
    }
    for _ in 0..2 {
        let (hot, ledger, written) = (hot.clone(), ledger.clone(), written.clone());
        tasks.spawn(async move {
            loop {
                let finished = written.available_permits() == WRITERS;
                let batch = hot.redis.peek(Shard::OLDER, limit(9)).await.unwrap();
                for entry in &batch.entries {
                    ledger.settle(&entry.event.request_id, entry.event.cost.unwrap().picos());
                }
                match batch.receipt() {
                    Some(receipt) => drop(hot.redis.ack(&receipt).await.unwrap()),
                    None if finished => return,
                    None => tokio::task::yield_now().await,
                }
            }
        });
    }
    tasks.join_all().await;
    let _all_written = written.acquire_many(all).await.unwrap();
    let settled = ledger.0.lock().unwrap().clone();
    assert_eq!(settled.len(), WRITERS * CALLS);
    assert_eq!(settled.values().sum::<i128>(), 3_000_000 * 900);
    assert_eq!(hot.redis.depth(Shard::OLDER).await, Ok(0));
    // The last one off may have been an old flusher, who leaves what floats have drifted by.
    for counter in old::counters(&hot).await {
        let left: f64 = hot.run(&[b"GET", counter.as_bytes()]).await;
        assert!(left.abs() < 1e-9, "{counter} {left}");
    }
    old::enqueue(&hot.raw, &OldCall::new("last", "0.000003")).await;
    drain(&hot).await;
    assert_eq!(old::counters(&hot).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_paid_call_that_does_not_say_which_key_it_is_makes_key_reads_an_error() {
    let hot = deployment().await;
    for unpaid in ["0", "0.0", "0e5", "null"] {
        let mut call = OldCall::new(format!("free {unpaid}"), unpaid);
        call.key_id = None;
        let _: u64 = hot.run(&[b"RPUSH", old::list().as_bytes(), call.json().as_bytes()]).await;
        assert_eq!(hot.redis.pending_key("k").await, Ok(Usd::ZERO), "{unpaid}");
    }
    let mut call = OldCall::new("paid", "0.5");
    call.key_id = None;
    old::enqueue(&hot.raw, &call).await;
    let error = hot.redis.pending_key("k").await.unwrap_err();
    assert!(matches!(error, LiveRedisError::Unproven(_)), "{error}");
    assert!(error.to_string().contains("paid entry 4"), "{error}");
    let half = Ok(Usd::from_picos(500_000_000_000));
    assert_eq!(hot.redis.pending(&team()).await, half, "other scopes are known");
    assert_eq!(hot.redis.pending_since("o", period()).await, half);
    drain(&hot).await;
    assert_eq!(hot.redis.pending_key("k").await, Ok(Usd::ZERO));
}

#[tokio::test]
async fn owners_asked_for_together_are_read_in_one_pass_each_by_its_own_rule() {
    let hot = deployment().await;
    for (n, start) in ["2026-02-28T23:59:59Z", "2026-03-01T00:00:00Z", "yesterday"].iter().enumerate() {
        let call = OldCall { start: Some(format!("\"{start}\"")), ..OldCall::new(format!("r{n}"), "0.25") };
        old::enqueue(&hot.raw, &call).await;
    }
    hot.redis.enqueue(&event("new", 100)).await.unwrap();
    let of = |text: &str| PendingQuery::Scope(scope(text));
    let queries = [
        PendingQuery::Organization { id: "o".into(), since: period() },
        of("project/o"),
        of("team/t"),
        of("organization/o"),
        PendingQuery::Organization { id: "o".into(), since: now() },
        of("team/x"),
        of("user/u"),
        of("team/t"),
        PendingQuery::Key("k".into()),
    ];
    let quarter = 250_000_000_000;
    let expected = [
        2 * quarter,
        0,
        3 * quarter + 100,
        3 * quarter,
        quarter,
        0,
        3 * quarter,
        3 * quarter + 100,
        3 * quarter + 100,
    ]
    .map(Usd::from_picos);
    assert_eq!(hot.redis.pending_all(&queries).await.unwrap(), expected);
    let calls = async || -> u64 {
        let info: String = hot.run(&[b"INFO", b"commandstats"]).await;
        let line = info.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls=")).unwrap();
        line.split(',').next().unwrap().parse().unwrap()
    };
    let before = calls().await;
    assert_eq!(hot.redis.pending_all(&queries).await.unwrap(), expected);
    assert_eq!(calls().await - before, 4, "one of each queue for each instant");
    assert_eq!(hot.redis.pending_all(&[of("project/p")]).await, Ok(vec![Usd::ZERO]));
    assert_eq!(calls().await - before, 5, "entries of format 1 charge no project");

    let unnamed = OldCall { key_id: None, ..OldCall::new("unnamed", "0.25") };
    old::enqueue(&hot.raw, &unnamed).await;
    let error = hot.redis.pending_all(&queries).await.unwrap_err();
    assert!(matches!(error, LiveRedisError::Unproven(_)), "{error}");
    assert_eq!(hot.redis.pending_all(&queries[..8]).await.unwrap()[3], Usd::from_picos(4 * quarter));
}

#[tokio::test]
async fn a_rotated_secret_leaves_its_key_what_it_was() {
    let hot = deployment().await;
    for (id, hash) in [("before", "0ff"), ("after", "abc")] {
        old::enqueue(&hot.raw, &OldCall { hash, ..OldCall::new(id, "0.25") }).await;
    }
    assert_eq!(hot.redis.pending_key("k").await, Ok(Usd::from_picos(500_000_000_000)));
    drain(&hot).await;
    assert_eq!(old::counters(&hot).await, Vec::<String>::new(), "both hashes' counters");
}

#[tokio::test]
async fn a_start_that_is_missing_or_malformed_counts_as_current() {
    let hot = deployment().await;
    let starts = [
        (Some("\"2026-02-28T23:59:59.999Z\""), false),
        (Some("\"2026-03-01T00:59:59+01:00\""), false),
        (Some("\"2026-02-28T18:59:59-05:00\""), false),
        (Some("\"2026-03-01T00:00:00Z\""), true),
        (Some("\"2026-02-28T23:00:00-05:00\""), true),
        (None, true),
        (Some("null"), true),
        (Some("\"\""), true),
        (Some("17"), true),
        (Some("\"yesterday\""), true),
        (Some("\"2026-02-28\""), true),
        (Some("\"2026-02-28 23:59:59Z\""), false),
        (Some("\"2026-02-30T00:00:00Z\""), true),
        (Some("\"0001-01-01T00:00:00Z\""), true),
    ];
    let (mut all, mut current) = (0, 0);
    for (n, (start, counts)) in starts.into_iter().enumerate() {
        let picos = 1 << n;
        let call = OldCall {
            start: start.map(str::to_owned),
            ..OldCall::new(format!("r{n}"), Usd::from_picos(picos).to_string())
        };
        old::enqueue(&hot.raw, &call).await;
        all += picos;
        current += if counts { picos } else { 0 };
        let since = hot.redis.pending_since("o", period()).await;
        assert_eq!(since, Ok(Usd::from_picos(current)), "{start:?}");
    }
    assert_eq!(pending(&hot, "organization/o").await, all);
}

#[tokio::test]
async fn amounts_are_the_digits_that_were_written() {
    let digits = [
        ("0.0000027", 2_700_000),
        ("2.7e-06", 2_700_000),
        ("1.2E-5", 12_000_000),
        ("1e2", 100_000_000_000_000),
        ("12345.678901234567", 12_345_678_901_234_567),
        ("0.10000000000000001", 100_000_000_000),
        ("0.30000000000000004", 300_000_000_000),
        ("9007.199254740993", 9_007_199_254_740_993),
        ("9223372.036854775807", i128::from(i64::MAX)),
    ];
    for (digits, picos) in digits {
        let hot = deployment().await;
        let _: u64 =
            hot.run(&[b"RPUSH", old::list().as_bytes(), OldCall::new("r", digits).json().as_bytes()]).await;
        assert_eq!(pending(&hot, "team/t").await, picos, "{digits}");
        assert_eq!(hot.redis.pending_key("k").await, Ok(Usd::from_picos(picos)));
        assert_eq!(drain(&hot).await[0].event.cost, Some(Usd::from_picos(picos)), "{digits}");
    }
}

#[tokio::test]
async fn what_cannot_be_read_stops_the_drain_and_the_strict_reads() {
    let good = OldCall::new("good", "0.5").json();
    let broken = [
        "garbage".to_owned(),
        String::new(),
        "{}".into(),
        "[]".into(),
        "null".into(),
        good[..good.len() - 1].into(),
        OldCall::new("", "0.5").json(),
        OldCall::new("r", "-0.5").json(),
        OldCall::new("r", "1e400").json(),
        OldCall::new("r", "\"0.5\"").json(),
        OldCall::new("r", "true").json(),
        OldCall::new("r", "[0.5]").json(),
        OldCall::new("r", "NaN").json(),
        OldCall::new("r", "0x10").json(),
        OldCall::new("r", "9223372.036854775808").json(),
        event("r", 5).entry(1, spend_queue::Chain::GENESIS),
    ];
    let hot = deployment().await;
    let list = old::list();
    for raw in &broken {
        let _: u64 = hot.run(&[b"RPUSH", list.as_bytes(), good.as_bytes(), raw.as_bytes()]).await;
        let batch = hot.redis.peek(Shard::OLDER, limit(10)).await.unwrap();
        assert_eq!(batch.entries.len(), 1, "{raw}");
        assert!(matches!(batch.stop, Some(Stop::Corrupt { position: 1, .. })), "{raw}");
        for read in [hot.redis.pending(&team()).await, hot.redis.pending_since("o", now()).await] {
            let error = read.unwrap_err();
            assert!(matches!(error, LiveRedisError::Damaged(_)), "{raw}: {error}");
        }
        hot.redis.ack(&batch.receipt().unwrap()).await.unwrap();
        let stuck = hot.redis.peek(Shard::OLDER, limit(10)).await.unwrap();
        assert_eq!((stuck.receipt(), stuck.depth), (None, 1), "nothing skips it");
        let _: u64 = hot.run(&[b"DEL", list.as_bytes()]).await;
    }
    hot.redis.enqueue(&charged("r", Some(5), vec![team()])).await.unwrap();
    assert_eq!(hot.redis.pending(&team()).await, Ok(Usd::from_picos(5)));
    println!("{} unreadable entries tried", broken.len());
}

#[tokio::test]
async fn a_full_redis_still_drains_an_older_queue() {
    let hot = deployment().await;
    for n in 0..3 {
        old::enqueue(&hot.raw, &OldCall::new(format!("r{n}"), "0.1")).await;
    }
    let _: String = hot.run(&[b"CONFIG", b"SET", b"maxmemory", b"1"]).await;
    assert_eq!(drain(&hot).await.len(), 3);
    assert_eq!(old::counters(&hot).await, Vec::<String>::new());
}
