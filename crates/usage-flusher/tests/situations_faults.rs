//! Situations in which other gateways lost spend or grew: commits that fail, a database that is away.
//!
//! The table of all situations is in live-redis, `tests/spend_situations/main.rs`.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod support;

use std::io::{BufRead, BufReader};
use std::process::Child;
use std::time::{Duration, Instant};

use bench_frame::process::Process;
use devstack::{Durability, PostgresServer};
use live_redis::{LiveRedis, Options};
use spend_queue::{BatchLimit, MAX_PEEK_BYTES, PendingSpend, ScopeRef, SpendEvent, SpendQueue, Usd};
use support::{Stack, binary, event, now, shard, team, terminate};

/// Reads the log until a line has this message; what follows it stays unread.
fn wait_for(child: &mut Child, message: &str) {
    let mut seen = Vec::new();
    for line in BufReader::new(child.stderr.as_mut().unwrap()).lines().map_while(Result::ok) {
        if line.contains(message) {
            return;
        }
        seen.push(line);
    }
    panic!("no {message:?} in {seen:#?}");
}

async fn drained(hot: &LiveRedis) {
    let give_up = Instant::now() + Duration::from_secs(60);
    while hot.depth(shard()).await != Ok(0) {
        assert!(Instant::now() < give_up, "the queue does not end");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_flusher_killed_while_its_commits_fail_leaves_every_entry_at_the_head() {
    let stack = Stack::start().await;
    for n in 0..300 {
        stack.hot.enqueue(&event(&format!("r{n}"), n + 1)).await.unwrap();
    }
    let head = |entries| stack.hot.peek(shard(), BatchLimit::new(entries).unwrap());
    let before = head(300).await.unwrap();
    stack.database.execute("break commits", "ALTER TABLE usage_events RENAME TO away").unwrap();
    for _ in 0..3 {
        let mut flusher = stack.flusher().args(["--batch-max", "100"]).spawn().unwrap();
        wait_for(&mut flusher, "step failed");
        flusher.kill().unwrap();
        flusher.wait().unwrap();
        let after = head(300).await.unwrap();
        assert_eq!((after.entries.len(), after.depth), (300, 300));
        assert_eq!(after.entries, before.entries);
        assert_eq!(stack.hot.pending(&team()).await, Ok(Usd::from_picos(45_150)));
    }
    stack.database.execute("mend commits", "ALTER TABLE away RENAME TO usage_events").unwrap();
    let mut flusher = stack.flusher().spawn().unwrap();
    drained(&stack.hot).await;
    terminate(&flusher);
    assert!(flusher.wait().unwrap().success());
    let totals = stack.ledger.totals().await.unwrap();
    assert!(totals.agree() && totals.settled_requests == 300, "{totals:?}");
    assert_eq!(stack.hot.pending(&team()).await, Ok(Usd::ZERO));
}

#[tokio::test]
async fn a_flusher_does_not_grow_while_the_database_is_away() {
    /// One peek at its largest is 8 MiB raw, and a batch of it is held twice while it is committed.
    const MOST_MIB: f64 = 48.0;
    let mut postgres = PostgresServer::builder().durability(Durability::Fast).start().unwrap();
    let database = postgres.database("away").unwrap();
    let url = database.url().to_owned();
    assert!(binary().arg("migrate").env("TALLYWEIR_DATABASE_URL", &url).status().unwrap().success());
    let redis = devstack::redis().unwrap().test();
    let mut flusher = binary()
        .args(["run", "--log-format", "json", "--linger-ms", "5", "--idle-ms", "20"])
        // Its PostgreSQL does not fsync.
        .arg("--lenient-start")
        .env("TALLYWEIR_DATABASE_URL", &url)
        .env("TALLYWEIR_REDIS_URL", redis.url())
        .env("TALLYWEIR_PREFIX", redis.prefix())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    wait_for(&mut flusher, "flusher started");
    // A full pipe must not be what holds it.
    let mut log = flusher.stderr.take().unwrap();
    std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
    let small = Process::new(flusher.id()).rss().unwrap();
    postgres.stop_immediate().unwrap();
    let options = Options::default().with_prefix(redis.prefix().parse().unwrap());
    let hot = LiveRedis::open_with(redis.url(), options).await.unwrap();
    for n in 0..30 {
        let events: Vec<_> = (0..1_000).map(|m| event(&format!("r{n}-{m}"), 1)).collect();
        for answer in futures(&hot, &events).await {
            answer.unwrap();
        }
    }
    assert_eq!(hot.depth(shard()).await, Ok(30_000));
    let large = Process::new(flusher.id()).rss().unwrap();
    println!("{small:.1} MiB before, {large:.1} MiB with 30,000 events waiting");
    assert!(large < small + MOST_MIB, "{small} to {large} MiB");
    postgres.start_again().unwrap();
    drained(&hot).await;
    terminate(&flusher);
    assert!(flusher.wait().unwrap().success());
}

#[tokio::test]
async fn a_flusher_that_peeks_as_much_as_one_peek_returns_stays_small() {
    /// Four shards in flight are to fit into the 512 MiB that the units in `deploy/` allow.
    const MOST_MIB: f64 = 128.0;
    let stack = Stack::start().await;
    // Most memory an entry: many short texts. Each of them is 16 scopes of its own.
    let events: Vec<_> = (0..10_000)
        .map(|n| {
            let scope = |s| ScopeRef::new("user", format!("a-user-of-the-company-{n}-{s}")).unwrap();
            let mut event = SpendEvent::new(format!("r{n}"), "m", (0..16).map(scope).collect());
            (event.cost, event.started_at) = (Some(Usd::from_picos(1)), Some(now()));
            event.encode(now()).unwrap()
        })
        .collect();
    for some in events.chunks(1_000) {
        for answer in futures(&stack.hot, some).await {
            answer.unwrap();
        }
    }
    let window = stack.hot.peek(shard(), BatchLimit::MAX).await.unwrap().entries;
    let bytes: usize = window.iter().map(|entry| entry.raw().len()).sum();
    assert!(bytes > MAX_PEEK_BYTES * 9 / 10, "{bytes} bytes of {} entries", window.len());
    let mut flusher = stack.flusher().args(["--batch-min", "2000", "--batch-max", "2000"]).spawn().unwrap();
    let mut log = flusher.stderr.take().unwrap();
    std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
    drained(&stack.hot).await;
    let peak = Process::new(flusher.id()).peak_rss().unwrap();
    println!("{peak:.1} MiB at most, with a window of {} entries in {bytes} bytes", window.len());
    assert!(peak < MOST_MIB, "{peak} MiB");
    terminate(&flusher);
    assert!(flusher.wait().unwrap().success());
}

/// Sends events together.
async fn futures(
    hot: &LiveRedis,
    events: &[spend_queue::EncodedEvent],
) -> Vec<Result<spend_queue::Enqueued, live_redis::LiveRedisError>> {
    let mut sent = tokio::task::JoinSet::new();
    for event in events {
        let (hot, event) = (hot.clone(), event.clone());
        sent.spawn(async move { hot.enqueue(&event).await });
    }
    sent.join_all().await
}
