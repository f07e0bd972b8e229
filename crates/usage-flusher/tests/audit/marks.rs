//! Request ids that Redis remembers, and what each belongs to.

use spend_queue::SpendQueue;

use crate::support::{Stack, event, shard};
use crate::{audit, audit_with, checks, enqueue, flush, only, redis};

#[tokio::test]
async fn a_deep_audit_finds_a_remembered_id_that_belongs_to_nothing() {
    let stack = Stack::start().await;
    stack
        .database
        .execute("refuse", "alter table usage_events add constraint no_bad check (request_id <> 'bad')")
        .unwrap();
    enqueue(&stack, 0..3).await;
    stack.hot.enqueue(&event("bad", 7)).await.unwrap();
    flush(&stack).await;
    enqueue(&stack, 3..1_203).await;
    let report = audit_with(&stack, &["--deep"]);
    assert_eq!(
        checks(&report),
        ["ledger.dead_letters"],
        "settled, refused and waiting ids are known: {report}"
    );
    assert!(report["looked_at"].as_array().unwrap().contains(&"queue.marks".into()), "{report}");

    // The last one vanishes with everything that shows it, but for the memory of its id.
    let head = stack.hot.peek(shard(), spend_queue::BatchLimit::MAX).await.unwrap();
    let gone = head.entries.last().unwrap().link.unwrap();
    let before = head.entries[head.entries.len() - 2].link.unwrap();
    let _: Vec<u8> = redis(&stack, "RPOP", &["queue"]).await;
    let next = gone.seq.to_string();
    let _: u64 = redis(&stack, "HSET", &["state", "next", &next, "chain", &before.chain.to_string()]).await;
    assert_eq!(checks(&audit(&stack)), ["ledger.dead_letters"], "nothing else shows it");
    stack.database.execute("mend", "alter table usage_events drop constraint no_bad").unwrap();
    let letters = stack.ledger.dead_letters(iam_ledger::DeadLetterPage::default()).await.unwrap();
    stack.ledger.replay(letters[0].id, crate::now()).await.unwrap();
    let report = audit_with(&stack, &["--deep"]);
    let what = only(&report, "queue.marks");
    assert!(what.contains("1 remembered request ids are nowhere"), "{what}");
}
