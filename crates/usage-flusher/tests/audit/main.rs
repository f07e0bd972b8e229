//! The audit says *exact* of what it looked at, and names everything else.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod archive;
mod aside;
mod epochs;
mod hands;
mod letters;
mod lost;
mod marks;
mod spools;
#[path = "../support/mod.rs"]
mod support;

use std::process::Output;

use chrono::{DateTime, Utc};
use live_redis::{LiveRedis, Options};
use serde_json::Value;
use spend_queue::{BatchLimit, ShardCount, SpendQueue};
use support::{Stack, binary, event, now, shard};
use usage_flusher::Flusher;

/// Settles everything that is queued, in batches of at most so many.
async fn flush_at(stack: &Stack, batch: u32, at: DateTime<Utc>) {
    let flusher = Flusher::new(stack.hot.clone(), stack.ledger.clone());
    while stack.hot.depth(shard()).await.unwrap() > 0 {
        flusher.step(shard(), BatchLimit::new(batch).unwrap(), || at, || true).await.outcome.unwrap();
    }
}

async fn flush(stack: &Stack) {
    flush_at(stack, 10_000, now()).await;
}

async fn enqueue(stack: &Stack, ids: std::ops::Range<u32>) {
    for id in ids {
        stack.hot.enqueue(&event(&format!("r{id}"), 5)).await.unwrap();
    }
}

/// A client of the stack's server with another prefix or another number of shards.
async fn client(stack: &Stack, prefix: &str, shards: u16) -> LiveRedis {
    let options =
        Options::default().with_prefix(prefix.parse().unwrap()).with_shards(ShardCount::new(shards).unwrap());
    LiveRedis::open_with(stack.redis.url(), options).await.unwrap()
}

/// The binary against the stack, and what else its command needs.
fn run(stack: &Stack, words: &[&str]) -> Output {
    let mut command = binary();
    command.args(words).env("RUST_LOG", "error");
    command.env("TALLYWEIR_REDIS_URL", stack.redis.url()).env("TALLYWEIR_PREFIX", stack.redis.prefix());
    command.env("TALLYWEIR_DATABASE_URL", stack.database.url()).output().unwrap()
}

/// What an audit answers in JSON; the exit code must say the same.
fn audit_with(stack: &Stack, words: &[&str]) -> Value {
    let output = run(stack, &[&["audit", "--json"], words].concat());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    let code = match report["verdict"].as_str().unwrap() {
        "exact" => 0,
        "differs" => 1,
        "nothing_to_compare" => 3,
        other => panic!("{other}"),
    };
    assert_eq!((output.status.code(), report["exact"] == true), (Some(code), code == 0), "{report}");
    report
}

fn audit(stack: &Stack) -> Value {
    audit_with(stack, &[])
}

fn text(stack: &Stack, words: &[&str]) -> String {
    String::from_utf8(run(stack, words).stdout).unwrap()
}

/// The names of what differs, in order.
fn checks(report: &Value) -> Vec<&str> {
    let found = report["differences"].as_array().unwrap();
    found.iter().map(|one| one["check"].as_str().unwrap()).collect()
}

/// What the only difference says.
fn only<'a>(report: &'a Value, check: &str) -> &'a str {
    assert_eq!(checks(report), [check], "{report}");
    report["differences"][0]["what"].as_str().unwrap()
}

/// Whether a line of a list of the report contains all of these.
fn says(report: &Value, list: &str, words: &[&str]) -> bool {
    let lines = report[list].as_array().unwrap();
    lines.iter().any(|line| words.iter().all(|word| line.as_str().unwrap().contains(word)))
}

/// A command by another hand on a key of the shard.
async fn redis<T: redis::FromRedisValue>(stack: &Stack, command: &str, words: &[&str]) -> T {
    let client = redis::Client::open(stack.redis.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let key = format!("{}:{{0}}:{}", stack.redis.prefix(), words[0]);
    redis::cmd(command).arg(key).arg(&words[1..]).query_async(&mut connection).await.unwrap()
}
