//! The binary against real servers: stopped, killed, doubled.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod support;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use iam_ledger::{Batch, Ledger};
use spend_queue::{BatchLimit, SpendQueue, Usd};
use support::{Stack, event, now, shard, team, terminate};

/// Waits for a condition that other processes bring about; fails when they do not.
async fn until<T>(what: &str, mut poll: impl AsyncFnMut() -> Option<T>) -> T {
    let give_up = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(done) = poll().await {
            return done;
        }
        assert!(Instant::now() < give_up, "{what} did not happen");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn drained(stack: &Stack) {
    until("the queue's end", async || (stack.hot.depth(shard()).await == Ok(0)).then_some(())).await;
}

async fn assert_exact(ledger: &Ledger, events: u64, picos: i128) {
    let totals = ledger.totals().await.unwrap();
    assert_eq!(totals.settled_requests, events);
    assert!(totals.agree(), "{totals:?}");
    let team: Vec<_> = ledger.spend_of(&team()).await.unwrap();
    assert_eq!(Usd::checked_sum(team.iter().map(|period| period.spend)), Some(Usd::from_picos(picos)));
}

async fn enqueue(stack: &Stack, ids: std::ops::Range<u32>) {
    for id in ids {
        stack.hot.enqueue(&event(&format!("r{id}"), i64::from(id) + 1)).await.unwrap();
    }
}

fn sum(ids: u32) -> i128 {
    (1..=i128::from(ids)).sum()
}

/// Reads the log until a line has this message.
fn wait_for(child: &mut Child, message: &str) {
    let lines = BufReader::new(child.stderr.as_mut().unwrap()).lines();
    let mut seen = Vec::new();
    for line in lines {
        let line = line.unwrap();
        if line.contains(message) {
            return;
        }
        seen.push(line);
    }
    panic!("no {message:?} in {seen:#?}");
}

#[tokio::test]
async fn two_flushers_on_one_queue_settle_exact_sums() {
    let stack = Stack::start().await;
    let mut flushers = [stack.flusher().spawn().unwrap(), stack.flusher().spawn().unwrap()];
    enqueue(&stack, 0..3000).await;
    drained(&stack).await;
    for flusher in &mut flushers {
        terminate(flusher);
        assert!(flusher.wait().unwrap().success());
    }
    assert_exact(&stack.ledger, 3000, sum(3000)).await;
    assert_eq!(stack.hot.hot_spend(&team()).await, Usd::ZERO);
}

#[tokio::test]
async fn a_stop_signal_under_load_ends_the_process_cleanly_and_loses_nothing() {
    let stack = Stack::start().await;
    enqueue(&stack, 0..2000).await;
    let mut flusher = stack.flusher().args(["--batch-min", "10", "--batch-max", "10"]).spawn().unwrap();
    wait_for(&mut flusher, "batch committed");
    let asked = Instant::now();
    terminate(&flusher);
    assert!(flusher.wait().unwrap().success());
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    let left = stack.hot.depth(shard()).await.unwrap();
    assert!(left > 0, "it was stopped on the way");
    let settled = stack.ledger.totals().await.unwrap().settled_requests;
    assert_eq!(settled + left, 2000, "what was committed is acknowledged, the rest is queued");

    let mut again = stack.flusher().spawn().unwrap();
    drained(&stack).await;
    terminate(&again);
    assert!(again.wait().unwrap().success());
    assert_exact(&stack.ledger, 2000, sum(2000)).await;
}

#[tokio::test]
async fn a_kill_after_the_commit_changes_no_sum() {
    let stack = Stack::start().await;
    enqueue(&stack, 0..3000).await;
    for _ in 0..5 {
        let mut flusher = stack.flusher().args(["--batch-max", "100"]).spawn().unwrap();
        wait_for(&mut flusher, "batch committed");
        flusher.kill().unwrap();
        flusher.wait().unwrap();
    }
    // The sharpest form of it: committed here, never acknowledged.
    let batch = stack.hot.peek(shard(), BatchLimit::new(50).unwrap()).await.unwrap();
    let unacknowledged =
        Batch { epoch: &stack.hot.epoch(), shard: shard(), entries: &batch.entries, committed_at: now() };
    stack.ledger.commit(&unacknowledged).await.unwrap();
    let mut flusher = stack.flusher().spawn().unwrap();
    drained(&stack).await;
    terminate(&flusher);
    assert!(flusher.wait().unwrap().success());
    assert_exact(&stack.ledger, 3000, sum(3000)).await;
    assert_eq!(stack.hot.hot_spend(&team()).await, Usd::ZERO);
}

#[tokio::test]
async fn events_of_a_database_outage_all_land_later() {
    let mut postgres =
        devstack::PostgresServer::builder().durability(devstack::Durability::Fast).start().unwrap();
    let database = postgres.database("outage").unwrap();
    let url = database.url().to_owned();
    let redis = devstack::redis().unwrap().test();
    let binary = |command: &str| {
        let mut binary = support::binary();
        binary.arg(command).env("TALLYWEIR_DATABASE_URL", &url).stderr(std::process::Stdio::piped());
        binary
    };
    assert!(binary("migrate").status().unwrap().success());
    let mut run: Command = binary("run");
    run.env("TALLYWEIR_REDIS_URL", redis.url()).env("TALLYWEIR_PREFIX", redis.prefix());
    // Its PostgreSQL does not fsync.
    let mut flusher = run.args(["--log-format", "json", "--lenient-start"]).spawn().unwrap();
    wait_for(&mut flusher, "flusher started");

    postgres.stop_immediate().unwrap();
    let options = live_redis::Options::default().with_prefix(redis.prefix().parse().unwrap());
    let hot = live_redis::LiveRedis::open_with(redis.url(), options).await.unwrap();
    for id in 0..1500 {
        hot.enqueue(&event(&format!("r{id}"), i64::from(id) + 1)).await.unwrap();
    }
    // Without PostgreSQL nobody knows whose the shards are, so nothing is peeked either.
    wait_for(&mut flusher, "none is until it can");
    assert_eq!(hot.depth(shard()).await, Ok(1500));
    postgres.start_again().unwrap();
    until("the queue's end", async || (hot.depth(shard()).await == Ok(0)).then_some(())).await;
    terminate(&flusher);
    assert!(flusher.wait().unwrap().success());
    let ledger = Ledger::connect(&url.into(), iam_ledger::LedgerOptions::default()).await.unwrap();
    assert_exact(&ledger, 1500, sum(1500)).await;
    ledger.close().await;
}
