//! What another hand did to ledger and queue, and a deployment that nobody touched.

use crate::support::Stack;
use crate::{audit, checks, enqueue, flush, redis, run};

#[tokio::test]
async fn whatever_is_settled_or_waits_is_exact_and_says_what_it_looked_at() {
    let stack = Stack::start().await;
    enqueue(&stack, 0..5).await;
    flush(&stack).await;
    enqueue(&stack, 5..8).await;
    let report = audit(&stack);
    assert_eq!((&report["exact"], &report["pending_entries"]), (&true.into(), &3.into()), "{report}");
    let looked_at: Vec<_> =
        report["looked_at"].as_array().unwrap().iter().map(|check| check.as_str().unwrap()).collect();
    for check in
        ["queue.index", "queue.lost", "queue.continuity", "flush_log", "ledger.dead_letters", "spools"]
    {
        assert!(looked_at.contains(&check), "{check}: {report}");
    }
    assert!(!looked_at.contains(&"queue.marks"), "only where it is asked for");
    let output = run(&stack, &["audit"]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("exact: ") && text.contains("3 entries wait"), "{text}");
    assert!(text.contains("\nlooked at: queue.head, ") && text.contains("\nnot looked at: "), "{text}");
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
        assert_eq!(checks(&audit(&stack)), [check], "{statement}");
    }
}

#[tokio::test]
async fn what_another_hand_did_to_the_queue_is_named() {
    for (command, words, expected) in [
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
        let _: redis::Value = redis(&stack, command, words).await;
        let report = audit(&stack);
        let found = checks(&report);
        assert!(expected.iter().any(|check| found.contains(check)), "{command} {words:?}: {found:?}");
    }
}
