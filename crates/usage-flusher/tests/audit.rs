//! The audit says *exact*, or names what another hand did.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod support;

use std::process::Output;

use serde_json::Value;
use spend_queue::{BatchLimit, SpendQueue};
use support::{Stack, binary, event, now, shard};
use usage_flusher::Flusher;

/// Settles everything that is queued.
async fn flush(stack: &Stack) {
    let flusher = Flusher::new(stack.hot.clone(), stack.ledger.clone());
    flusher.step(shard(), BatchLimit::MAX, now, || true).await.outcome.unwrap();
}

async fn enqueue(stack: &Stack, ids: std::ops::Range<u32>) {
    for id in ids {
        stack.hot.enqueue(&event(&format!("r{id}"), 5)).await.unwrap();
    }
}

fn audit(stack: &Stack, json: bool) -> Output {
    let mut command = binary();
    command.args(["audit"]).args(json.then_some("--json")).env("RUST_LOG", "error");
    command.env("TALLYWEIR_REDIS_URL", stack.redis.url()).env("TALLYWEIR_PREFIX", stack.redis.prefix());
    command.env("TALLYWEIR_DATABASE_URL", stack.database.url()).output().unwrap()
}

/// The names of what differs, in order; the exit code must say the same.
fn differences(stack: &Stack) -> Vec<String> {
    let output = audit(stack, true);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    assert_eq!(report["exact"] == true, output.status.success(), "{report}");
    let found = report["differences"].as_array().unwrap();
    found.iter().map(|one| one["check"].as_str().unwrap().to_owned()).collect()
}

async fn redis(stack: &Stack, command: &str, words: &[&str]) {
    let client = redis::Client::open(stack.redis.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let key = format!("{}:{{0}}:{}", stack.redis.prefix(), words[0]);
    let _: redis::Value =
        redis::cmd(command).arg(key).arg(&words[1..]).query_async(&mut connection).await.unwrap();
}

#[tokio::test]
async fn whatever_is_settled_or_waits_is_exact() {
    let stack = Stack::start().await;
    assert_eq!(differences(&stack), [""; 0], "nothing was ever enqueued");
    enqueue(&stack, 0..5).await;
    assert_eq!(differences(&stack), [""; 0], "nothing was ever settled");
    flush(&stack).await;
    enqueue(&stack, 5..8).await;
    let output = audit(&stack, false);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("exact: ") && text.contains("3 entries wait"), "{text}");
}

#[tokio::test]
async fn what_another_hand_did_to_the_ledger_is_named() {
    for (statement, check) in [
        ("update usage_daily set cost_usd = cost_usd + 0.000000000001", "ledger.days"),
        ("update scope_spend set spend_usd = spend_usd * 2 where kind = 'team'", "ledger.scopes"),
        ("delete from settled_requests where request_id = 'r1'", "ledger.requests"),
    ] {
        let stack = Stack::start().await;
        enqueue(&stack, 0..3).await;
        flush(&stack).await;
        stack.database.execute("a hand-made difference", statement).unwrap();
        assert_eq!(differences(&stack), [check], "{statement}");
    }
}

#[tokio::test]
async fn what_another_hand_did_to_the_queue_is_named() {
    for (command, words, checks) in [
        ("LPOP", &["queue"][..], &["queue.index", "queue.continuity"][..]),
        ("RPUSH", &["queue", "garbage"], &["queue.index"]),
        ("LSET", &["queue", "0", "garbage"], &["queue.head", "queue.index"]),
        ("HSET", &["hot", "team/t", "-1"], &["queue.counters"]),
        ("HSET", &["state", "next", "2"], &["queue.index", "queue.continuity"]),
    ] {
        let stack = Stack::start().await;
        enqueue(&stack, 0..3).await;
        flush(&stack).await;
        enqueue(&stack, 3..6).await;
        redis(&stack, command, words).await;
        let found = differences(&stack);
        assert!(
            checks.iter().any(|check| found.contains(&(*check).to_owned())),
            "{command} {words:?}: {found:?}"
        );
    }
}
