//! Situations in which other gateways had wrong sums: cold readers, late flushes, deadlocks.
//!
//! The table of all situations is in live-redis, `tests/spend_situations/main.rs`.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod support;

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use iam_ledger::{Batch, Ledger, UsageRange};
use live_redis::{LiveRedis, Options};
use spend_queue::{BatchLimit, PendingSpend, ScopeRef, SpendEvent, SpendQueue, Usd};
use support::{Stack, event, now, shard, team, terminate};

async fn settled(ledger: &Ledger, scope: &ScopeRef) -> Usd {
    let periods = ledger.spend_of(scope).await.unwrap();
    Usd::checked_sum(periods.iter().map(|period| period.spend)).unwrap()
}

/// Commits and acknowledges the head as a flusher does.
async fn flush(stack: &Stack, entries: u32, at: DateTime<Utc>) {
    let batch = stack.hot.peek(shard(), BatchLimit::new(entries).unwrap()).await.unwrap();
    let epoch = stack.hot.epoch();
    let commit = Batch { epoch: &epoch, shard: shard(), entries: &batch.entries, committed_at: at };
    stack.ledger.commit(&commit).await.unwrap();
    stack.hot.ack(&batch.receipt().unwrap()).await.unwrap();
}

async fn drained(stack: &Stack) {
    let give_up = Instant::now() + Duration::from_secs(60);
    while stack.hot.depth(shard()).await != Ok(0) {
        assert!(Instant::now() < give_up, "the queue does not end");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn six_readers_see_ledger_and_pending_add_up() {
    const TOTAL: i128 = 300 * 7;
    let stack = Stack::start().await;
    for n in 0..300 {
        stack.hot.enqueue(&event(&format!("r{n}"), 7)).await.unwrap();
    }
    for _ in 0..3 {
        flush(&stack, 50, now()).await;
        let mut readers = tokio::task::JoinSet::new();
        for _ in 0..6 {
            // Cold: a host that has just started.
            let options = Options::default().with_prefix(stack.redis.prefix().parse().unwrap());
            let hot = LiveRedis::open_with(stack.redis.url(), options).await.unwrap();
            let ledger = stack.ledger.clone();
            readers.spawn(async move {
                for _ in 0..5 {
                    let sum =
                        settled(&ledger, &team()).await.checked_add(hot.pending(&team()).await.unwrap());
                    assert_eq!(sum, Some(Usd::from_picos(TOTAL)));
                }
            });
        }
        readers.join_all().await;
    }
    // While it is flushed, what is read pending first and settled second is never less than what is owed.
    let mut flusher = stack.flusher().args(["--batch-min", "1", "--batch-max", "10"]).spawn().unwrap();
    let give_up = Instant::now() + Duration::from_secs(60);
    while stack.hot.depth(shard()).await != Ok(0) {
        assert!(Instant::now() < give_up, "the queue does not end");
        let pending = stack.hot.pending(&team()).await.unwrap();
        let sum = settled(&stack.ledger, &team()).await.checked_add(pending).unwrap();
        assert!(sum >= Usd::from_picos(TOTAL), "{sum}");
    }
    terminate(&flusher);
    assert!(flusher.wait().unwrap().success());
    assert_eq!(settled(&stack.ledger, &team()).await, Usd::from_picos(TOTAL));
}

#[tokio::test]
async fn an_event_from_before_midnight_is_charged_to_its_own_day_when_flushed_after() {
    let stack = Stack::start().await;
    let at = |text: &str| text.parse::<DateTime<Utc>>().unwrap();
    let midnight = at("2026-03-01T00:00:00Z");
    let organization = ScopeRef::new("organization", "o").unwrap();
    for (id, start, picos) in [("before", "2026-02-28T23:59:59.9Z", 5), ("after", "2026-03-01T00:00:01Z", 7)]
    {
        let mut event = SpendEvent::new(id, "m", vec![organization.clone()]);
        event.organization_id = Some("o".into());
        (event.cost, event.started_at) = (Some(Usd::from_picos(picos)), Some(at(start)));
        stack.hot.enqueue_spend(&event, at("2026-03-01T00:00:02Z")).await.unwrap();
    }
    assert_eq!(stack.hot.pending_since("o", midnight).await, Ok(Usd::from_picos(7)), "before the flush");
    flush(&stack, 10, at("2026-03-01T00:00:05Z")).await;
    for (day, picos) in [("2026-02-28", 5), ("2026-03-01", 7)] {
        let from = day.parse::<chrono::NaiveDate>().unwrap();
        let range = UsageRange { organization_id: None, from, until: from.succ_opt().unwrap() };
        let usage = stack.ledger.daily_usage(&range).await.unwrap();
        assert_eq!(
            usage.iter().map(|row| row.sums.cost).collect::<Vec<_>>(),
            [Usd::from_picos(picos)],
            "{day}"
        );
    }
    assert_eq!(stack.hot.pending_since("o", midnight).await, Ok(Usd::ZERO));
}

#[tokio::test]
async fn flushers_that_touch_scopes_in_opposite_order_settle_exact_sums() {
    let stack = Stack::start().await;
    let scopes = ["a", "b"].map(|id| ScopeRef::new("team", id).unwrap());
    let mut flushers: Vec<_> = (0..2)
        .map(|_| stack.flusher().args(["--batch-min", "1", "--batch-max", "7"]).spawn().unwrap())
        .collect();
    for n in 0..1_000_u32 {
        let mut listed = scopes.to_vec();
        if n % 2 == 1 {
            listed.reverse();
        }
        let mut event = SpendEvent::new(format!("r{n}"), "m", listed);
        (event.cost, event.started_at) = (Some(Usd::from_picos(3)), Some(now()));
        stack.hot.enqueue_spend(&event, now()).await.unwrap();
    }
    drained(&stack).await;
    for flusher in &mut flushers {
        terminate(flusher);
        assert!(flusher.wait().unwrap().success());
    }
    for scope in &scopes {
        assert_eq!(settled(&stack.ledger, scope).await, Usd::from_picos(3_000), "{scope}");
    }
    let totals = stack.ledger.totals().await.unwrap();
    assert!(totals.agree() && totals.settled_requests == 1_000, "{totals:?}");
}
