//! What the service shows of itself, and how it shares its shards.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Child;
use std::time::{Duration, Instant};

use serde_json::Value;
use spend_queue::{BatchLimit, SpendQueue};
use support::{Stack, event, now, shard, terminate};
use usage_flusher::Flusher;

/// A running flusher and where it listens.
struct Running {
    child: Child,
    address: String,
}

impl Running {
    fn start(stack: &Stack) -> Self {
        Self::start_with(stack, &[])
    }

    fn start_with(stack: &Stack, flags: &[&str]) -> Self {
        let mut child = stack.flusher().args(["--listen", "127.0.0.1:0"]).args(flags).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let line =
            lines.by_ref().map(Result::unwrap).find(|line| line.contains("endpoints are served")).unwrap();
        let line: Value = serde_json::from_str(&line).unwrap();
        let address = line["address"].as_str().unwrap_or_else(|| panic!("{line}")).to_owned();
        // The pipe must not fill up.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address }
    }

    fn get(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: flusher\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    fn status(&self) -> Value {
        serde_json::from_str(&self.get("/status").1).unwrap()
    }

    fn owns(&self) -> bool {
        self.status()["shards"]["0"]["owned"] == true
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for what another process brings about.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let give_up = Instant::now() + Duration::from_secs(30);
    while !done() {
        assert!(Instant::now() < give_up, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_working_flusher_is_alive_ready_and_counts_what_it_does() {
    let stack = Stack::start().await;
    for id in 0..3 {
        stack.hot.enqueue(&event(&format!("r{id}"), 5)).await.unwrap();
    }
    let mut flusher = Running::start(&stack);
    until("the hand-off", || flusher.status()["shards"]["0"]["flushed"] == 3);
    until("readiness", || flusher.get("/readyz").0 == 200);
    assert_eq!(flusher.get("/livez"), (200, "alive\n".into()));
    assert_eq!(flusher.get("/nothing").0, 404);
    assert!(flusher.get("/readyz").1.starts_with("ready\n"));
    let metrics = flusher.get("/metrics").1;
    for line in [
        "tallyweir_events_settled_total 3",
        "tallyweir_shard_owned{shard=\"0\"} 1",
        "tallyweir_batch_seconds_count{phase=\"commit\"} ",
    ] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
    assert_eq!(flusher.status()["ready"], true);
    terminate(&flusher.child);
    assert!(flusher.child.wait().unwrap().success());
}

/// The value of a metric, by its name and labels as they are exported.
fn metric(flusher: &Running, name: &str) -> Option<f64> {
    let metrics = flusher.get("/metrics").1;
    metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

#[tokio::test(flavor = "multi_thread")]
async fn counters_are_there_before_their_first_event_and_gauges_say_when_they_were_written() {
    let stack = Stack::start().await;
    let flusher = Running::start_with(&stack, &["--in-flight", "7"]);
    for name in [
        "tallyweir_commits_total",
        "tallyweir_settled_picodollars_total",
        "tallyweir_dead_letters_total{kind=\"refused\"}",
        "tallyweir_events_conflict_total",
        "tallyweir_step_failures_total{shard=\"0\",kind=\"operator\"}",
        "tallyweir_postgresql_errors_total{class=\"none\"}",
        "tallyweir_redis_errors_total{call=\"peek\",kind=\"damaged\"}",
        "tallyweir_redis_index_rebuilds_total",
        "tallyweir_holds_expired_total",
    ] {
        assert_eq!(metric(&flusher, name), Some(0.0), "{name}");
    }
    let build = format!("tallyweir_build_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION"));
    assert_eq!(metric(&flusher, &build), Some(1.0));
    assert_eq!(metric(&flusher, "tallyweir_last_commit_timestamp_seconds"), None, "nothing was committed");
    until("the pool's size", || metric(&flusher, "tallyweir_postgresql_connections_max") == Some(8.0));
    let clock = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    for source in ["redis", "postgresql"] {
        let name = format!("tallyweir_last_sample_timestamp_seconds{{source=\"{source}\"}}");
        until("a look", || metric(&flusher, &name).is_some_and(|at| (clock() - at).abs() < 60.0));
    }
    stack.hot.enqueue(&event("r", 12_345)).await.unwrap();
    until("the sum", || metric(&flusher, "tallyweir_settled_picodollars_total") == Some(12_345.0));
    let committed = metric(&flusher, "tallyweir_last_commit_timestamp_seconds").unwrap();
    assert!((clock() - committed).abs() < 60.0, "{committed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn old_rows_of_the_flush_log_are_pruned_and_the_audit_stays_exact() {
    let stack = Stack::start().await;
    let flush = Flusher::new(stack.hot.clone(), stack.ledger.clone());
    for id in 0..4 {
        stack.hot.enqueue(&event(&format!("r{id}"), 5)).await.unwrap();
        flush.step(shard(), BatchLimit::MIN, now, || true).await.outcome.unwrap();
    }
    let aged =
        "update flush_log set committed_at = now() - make_interval(days => 100 - 10 * last_seq::integer)";
    stack.database.execute("aged batches", aged).unwrap();
    let flusher = Running::start_with(&stack, &["--flush-log-days", "75"]);
    until("the pruning", || metric(&flusher, "tallyweir_flush_log_pruned_total") == Some(2.0));
    let audit = stack.ledger.audit(&stack.hot.epoch(), 10).await.unwrap();
    assert_eq!(audit, iam_ledger::LedgerAudit::default());
    assert_eq!(
        stack.ledger.last_flush(&stack.hot.epoch(), shard()).await.unwrap().map(|end| end.seq),
        Some(4)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_shards_of_a_flusher_that_is_killed_are_taken_over_within_seconds() {
    let stack = Stack::start().await;
    let mut first = Running::start(&stack);
    until("the first one's ownership", || first.owns());
    let second = Running::start(&stack);
    until("the second one's look at the shards", || second.status()["postgresql"]["answered_at"].is_string());
    assert!(!second.owns(), "one shard has one owner");
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    let killed = Instant::now();
    until("the takeover", || second.owns());
    assert!(killed.elapsed() < Duration::from_secs(5), "{:?}", killed.elapsed());
    stack.hot.enqueue(&event("after", 5)).await.unwrap();
    until("the hand-off by the second one", || second.status()["shards"]["0"]["flushed"] == 1);
}
