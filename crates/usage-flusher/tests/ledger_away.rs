//! A ledger that is too slow for a batch, that becomes a standby, or that an entry cannot be stored in.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod support;

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use chrono::Utc;
use devstack::{Durability, PostgresServer};
use iam_ledger::{DeadLetterPage, Ledger, LedgerOptions};
use live_redis::{LiveRedis, Options};
use spend_queue::{BatchLimit, Chain, PendingSpend, SpendQueue, Usd};
use support::{Stack, binary, event, shard, team, terminate};
use usage_flusher::{Flusher, Pace, PaceLimits, Uncancelled, Worker};

fn limit(entries: u32) -> BatchLimit {
    BatchLimit::new(entries).unwrap()
}

fn pace(smallest: u32, largest: u32) -> Pace {
    let wait = Duration::from_millis(1);
    let limits = PaceLimits { smallest: limit(smallest), largest: limit(largest), linger: wait, idle: wait };
    Pace::new(limits).unwrap()
}

#[tokio::test]
async fn a_backlog_drains_although_its_largest_batches_cannot_be_committed_in_their_time() {
    let stack = Stack::start().await;
    for n in 0..1_500 {
        stack.hot.enqueue(&event(&format!("r{n}"), 1)).await.unwrap();
    }
    // A millisecond an entry: 200 pass, 400 do not.
    stack
        .database
        .execute(
            "slow",
            "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS \
             $$ BEGIN PERFORM pg_sleep(0.001); RETURN NEW; END $$; \
             CREATE TRIGGER slow BEFORE INSERT ON settled_requests FOR EACH ROW EXECUTE FUNCTION slow()",
        )
        .unwrap();
    let options = LedgerOptions { statement_timeout: Duration::from_millis(400), ..LedgerOptions::default() };
    let ledger = Ledger::connect(&stack.database.url().to_owned().into(), options).await.unwrap();
    let flusher = Flusher::new(stack.hot.clone(), Uncancelled(ledger));
    let mut worker = Worker::new(shard(), pace(1_000, 10_000), 1);
    let (mut failed, give_up) = (0, Instant::now() + Duration::from_secs(60));
    while stack.hot.depth(shard()).await.unwrap() > 0 {
        assert!(Instant::now() < give_up, "it never drains");
        let turn = worker.turn(&flusher, Utc::now, || true).await;
        failed += u32::from(turn.step.outcome.is_err());
    }
    assert!(failed > 0, "no batch was too large");
    let totals = stack.ledger.totals().await.unwrap();
    assert!(totals.agree() && totals.settled_requests == 1_500, "{totals:?}");
}

#[tokio::test]
async fn a_flusher_on_a_standby_refuses_to_start_and_a_running_one_drains_right_after_the_promotion() {
    let mut postgres = PostgresServer::builder().durability(Durability::Fast).start().unwrap();
    let database = postgres.database("standby").unwrap();
    let redis = devstack::redis().unwrap().test();
    let url = database.url().to_owned();
    let command = |name: &str| {
        let mut command = binary();
        command
            .arg(name)
            .env("TALLYWEIR_DATABASE_URL", &url)
            .env("TALLYWEIR_REDIS_URL", redis.url())
            .env("TALLYWEIR_PREFIX", redis.prefix())
            // The tests' servers do not fsync.
            .env("TALLYWEIR_LENIENT_START", "true")
            .stderr(Stdio::piped());
        command
    };
    assert!(command("migrate").status().unwrap().success());
    let options = Options::default().with_prefix(redis.prefix().parse().unwrap());
    let hot = LiveRedis::open_with(redis.url(), options).await.unwrap();
    let mut flusher = command("run").args(["--log-format", "json"]).spawn().unwrap();
    let mut lines = BufReader::new(flusher.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("flusher started")));

    postgres.demote().unwrap();
    for n in 0..500 {
        hot.enqueue(&event(&format!("r{n}"), 1)).await.unwrap();
    }
    assert!(lines.any(|line| line.unwrap().contains("the server is a standby")), "it says what it waits for");
    let refused = command("run").output().unwrap();
    assert_eq!(refused.status.code(), Some(75), "although the start is lenient");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("postgresql.role: a standby") && !said.contains("--lenient-start"), "{said}");

    postgres.promote().unwrap();
    let promoted = Instant::now();
    while hot.depth(shard()).await.unwrap() > 0 {
        assert!(promoted.elapsed() < Duration::from_secs(30), "it does not drain");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let drained = promoted.elapsed();
    // What the operators' page promises: a look each half second, a new connection, and the commit.
    assert!(drained < Duration::from_secs(2), "{drained:?}");
    println!("drained {drained:?} after the promotion");
    terminate(&flusher);
    assert!(flusher.wait().unwrap().success());
}

#[tokio::test]
async fn of_a_hundred_queued_entries_one_that_cannot_be_stored_holds_up_none_and_leaves_nothing_pending() {
    let stack = Stack::start().await;
    for n in 0..100 {
        stack.hot.enqueue(&event(&format!("r{n}"), 5)).await.unwrap();
    }
    // Another producer, whose third event holds a NUL: the same list with a chain of its own.
    let client = redis::Client::open(stack.redis.url()).unwrap();
    let mut raw = client.get_multiplexed_async_connection().await.unwrap();
    let entries = stack.hot.peek(shard(), limit(100)).await.unwrap().entries;
    let key = |name: &str| format!("{}:{{{}}}:{name}", stack.redis.prefix(), shard());
    let (list, state) = (key("queue"), key("state"));
    let mut chain = Chain::GENESIS;
    for (place, entry) in entries.iter().enumerate() {
        let (link, text) = (entry.link.unwrap(), String::from_utf8(entry.raw().to_vec()).unwrap());
        let mut body = text.split_once("\"queued\":").unwrap().1.split_once(',').unwrap().1.to_owned();
        if place == 2 {
            body = body.replacen("\"model\":\"m\"", "\"model\":\"\\u0000\"", 1);
        }
        chain = chain.next(link.seq, link.queued, &body);
        let linked =
            format!("{{\"seq\":{},\"chain\":\"{chain}\",\"queued\":{},{body}", link.seq, link.queued);
        let _: String =
            redis::cmd("LSET").arg(&list).arg(place).arg(linked).query_async(&mut raw).await.unwrap();
    }
    let _: u64 = redis::cmd("HSET")
        .arg(state)
        .arg("chain")
        .arg(chain.to_string())
        .query_async(&mut raw)
        .await
        .unwrap();
    assert_eq!(stack.hot.pending(&team()).await, Ok(Usd::from_picos(500)));

    let flusher = Flusher::new(stack.hot.clone(), stack.ledger.clone());
    let mut worker = Worker::new(shard(), pace(100, 100), 1);
    // In batches of which none ends behind it, and one entry stays to show what is left pending.
    stack.hot.enqueue(&event("last", 7)).await.unwrap();
    let turn = worker.turn(&flusher, Utc::now, || false).await;
    turn.step.outcome.unwrap();
    assert_eq!((turn.step.flushed.entries, turn.step.flushed.left), (100, 1));
    assert_eq!(
        stack.hot.pending(&team()).await,
        Ok(Usd::from_picos(7)),
        "exactly what was added is taken off"
    );
    let totals = stack.ledger.totals().await.unwrap();
    assert!(totals.agree() && totals.settled_requests == 99, "{totals:?}");
    let letters = stack.ledger.dead_letters(DeadLetterPage::default()).await.unwrap();
    let [letter] = &letters[..] else { panic!("{letters:?}") };
    assert_eq!(letter.request_id.as_deref(), Some("r2"));
    assert!(letter.reason.contains("model has a control character"), "{}", letter.reason);
}
