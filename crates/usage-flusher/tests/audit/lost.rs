//! An empty list is no proof: what left it without an acknowledgement is named, at once and until somebody dealt with it.

use live_redis::{LiveRedis, Options};
use serde_json::Value;
use spend_queue::{Enqueued, SpendQueue};

use crate::support::{Stack, event, shard};
use crate::{audit, checks, enqueue, flush, only, redis, run, says, text};

/// Three that are settled, and some that wait.
async fn settled_and_waiting(waiting: u32) -> Stack {
    let stack = Stack::start().await;
    enqueue(&stack, 0..3).await;
    flush(&stack).await;
    enqueue(&stack, 3..3 + waiting).await;
    stack
}

fn status(stack: &Stack) -> Value {
    serde_json::from_slice(&run(stack, &["status", "--json"]).stdout).unwrap()
}

#[tokio::test]
async fn a_list_that_another_hand_deleted_is_named_at_once_with_amount_and_numbers() {
    let stack = settled_and_waiting(3).await;
    let _: u64 = redis(&stack, "DEL", &["queue"]).await;
    let report = audit(&stack);
    let what = only(&report, "queue.lost");
    assert!(what.contains("numbers 4 to 6") && what.contains("team 0.000000000015 USD"), "{what}");
    let shown = status(&stack);
    assert_eq!((&shown["consistent"], &shown["shards"][0]["missing"]), (&false.into(), &3.into()), "{shown}");
    let shown = text(&stack, &["status"]);
    assert!(shown.contains("numbers 4 to 6") && shown.contains("team 0.000000000015"), "{shown}");
    let retry = stack.hot.enqueue(&event("r3", 5)).await.unwrap();
    assert_eq!(retry, Enqueued::Duplicate, "which is why it must be named");
}

#[tokio::test]
async fn the_only_waiting_entry_that_another_hand_took_is_named_at_once() {
    for pop in ["LPOP", "RPOP"] {
        let stack = settled_and_waiting(1).await;
        let _: Vec<u8> = redis(&stack, pop, &["queue"]).await;
        let report = audit(&stack);
        let what = only(&report, "queue.lost");
        assert!(what.contains("number 4 ") && what.contains("organization 0.000000000005 USD"), "{what}");
    }
}

#[tokio::test]
async fn an_event_that_comes_later_does_not_cover_a_loss_and_an_acknowledged_one_is_no_difference() {
    let stack = settled_and_waiting(3).await;
    let _: u64 = redis(&stack, "DEL", &["queue"]).await;
    enqueue(&stack, 6..8).await;
    let report = audit(&stack);
    let what = only(&report, "queue.lost").to_owned();
    assert!(what.contains("numbers 4 to 6") && what.contains("team 0.000000000015 USD"), "{what}");
    assert!(what.contains("`enqueue` found"), "{what}");
    flush(&stack).await;
    let report = audit(&stack);
    assert_eq!(only(&report, "queue.lost"), what, "the gap in the flush log is the same loss");

    let words = ["losses", "--shard", "0", "--acknowledge", "0", "--reason", "entered again as x-4 to x-6"];
    assert!(text(&stack, &words).contains("--yes"), "only shown");
    assert_eq!(checks(&audit(&stack)), ["queue.lost"]);
    assert!(text(&stack, &[&words[..], &["--yes"]].concat()).contains("marked"));
    let report = audit(&stack);
    assert_eq!(report["verdict"], "exact", "{report}");
    assert!(says(&report, "remarks", &["numbers 4 to 6", "entered again as x-4 to x-6"]), "{report}");
    assert_eq!(status(&stack)["consistent"], true);
    let listed = text(&stack, &["losses"]);
    assert!(listed.contains("4..6") && listed.contains("entered again"), "the record stays: {listed}");
}

#[tokio::test]
async fn what_was_taken_off_in_two_goes_is_covered_by_both_records_together() {
    let stack = settled_and_waiting(3).await;
    for ids in [6..8, 8..9] {
        let _: u64 = redis(&stack, "DEL", &["queue"]).await;
        enqueue(&stack, ids).await;
    }
    flush(&stack).await;
    for place in ["0", "1"] {
        let words = ["losses", "--shard", "0", "--acknowledge", place, "--reason", "entered again", "--yes"];
        assert!(text(&stack, &words).contains("marked"));
    }
    let report = audit(&stack);
    assert_eq!(report["verdict"], "exact", "{report}");
    assert!(says(&report, "remarks", &["numbers 4 to 6"]), "{report}");
    assert!(says(&report, "remarks", &["numbers 7 to 8"]), "{report}");
}

#[tokio::test]
async fn a_repair_writes_down_what_is_missing_before_it_sets_anything_back() {
    let stack = settled_and_waiting(3).await;
    let _: Vec<u8> = redis(&stack, "RPOP", &["queue"]).await;
    assert!(run(&stack, &["repair", "--yes"]).status.success());
    let report = audit(&stack);
    let what = only(&report, "queue.lost");
    assert!(what.contains("number 6 ") && what.contains("team 0.000000000005 USD"), "{what}");
    enqueue(&stack, 6..7).await;
    flush(&stack).await;
    let report = audit(&stack);
    assert!(only(&report, "queue.lost").contains("number 6 "), "{report}");
}

#[tokio::test]
async fn a_repair_of_an_empty_list_keeps_the_evidence() {
    let stack = settled_and_waiting(3).await;
    let _: u64 = redis(&stack, "DEL", &["queue"]).await;
    assert!(run(&stack, &["repair", "--yes"]).status.success());
    let report = audit(&stack);
    let what = only(&report, "queue.lost");
    assert!(what.contains("numbers 4 to 6") && what.contains("team 0.000000000015 USD"), "{what}");
}

#[tokio::test]
async fn the_flusher_that_empties_the_list_writes_down_what_it_never_saw() {
    for (pop, lost) in [("RPOP", "number 6 "), ("LPOP", "number 4 ")] {
        let stack = settled_and_waiting(3).await;
        let _: Vec<u8> = redis(&stack, pop, &["queue"]).await;
        let options = Options::default().with_prefix(stack.redis.prefix().parse().unwrap());
        let hot = LiveRedis::open_with(stack.redis.url(), options).await.unwrap();
        let batch = hot.peek(shard(), spend_queue::BatchLimit::MAX).await.unwrap();
        let commit = iam_ledger::Batch {
            epoch: &hot.epoch(),
            shard: shard(),
            entries: &batch.entries,
            committed_at: crate::now(),
        };
        stack.ledger.commit(&commit).await.unwrap();
        hot.ack(&batch.receipt().unwrap()).await.unwrap();
        let report = audit(&stack);
        let what = only(&report, "queue.lost");
        assert!(what.contains(lost) && what.contains("team 0.000000000005 USD"), "{pop}: {what}");
    }
}
