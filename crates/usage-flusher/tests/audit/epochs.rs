//! Several prefixes and numbers of shards on one ledger, and committers whose clocks differ.

use chrono::TimeDelta;
use iam_ledger::{Ledger, LedgerOptions};
use live_redis::{LiveRedis, OlderQueue, Options};
use spend_queue::{BatchLimit, Shard, SpendQueue};
use usage_flusher::Flusher;

use crate::support::{Stack, event, now, shard};
use crate::{audit, audit_with, checks, client, enqueue, flush, flush_at, run, says, text};

/// Queues some under another epoch and settles all but the last few.
async fn another(stack: &Stack, prefix: &str, shards: u16, ids: std::ops::Range<u32>, settle: u32) {
    let hot = client(stack, prefix, shards).await;
    for id in ids {
        hot.enqueue(&event(&format!("{prefix}-{id}"), 5)).await.unwrap();
    }
    let flusher = Flusher::new(hot.clone(), stack.ledger.clone());
    for shard in hot.sources() {
        for _ in 0..settle {
            flusher.step(shard, BatchLimit::MIN, now, || false).await.outcome.unwrap();
        }
    }
}

#[tokio::test]
async fn a_second_prefix_and_another_number_of_shards_are_named_and_are_no_fork() {
    let stack = Stack::start().await;
    enqueue(&stack, 0..20).await;
    flush_at(&stack, 1, now()).await;
    let drained = format!("{}-old", stack.redis.prefix());
    let waiting = format!("{}-two", stack.redis.prefix());
    another(&stack, &drained, 1, 0..20, 20).await;
    another(&stack, &waiting, 2, 0..20, 15).await;
    let report = audit(&stack);
    assert_eq!(report["verdict"], "exact", "{report}");
    assert!(says(&report, "remarks", &[&drained, "1 shard", "it ended drained"]), "{report}");
    assert!(says(&report, "remarks", &[&waiting, "2 shards", "5 entries wait there"]), "{report}");
    // And seen from the other side.
    let report = audit_with(&stack, &["--prefix", &waiting, "--shards", "2"]);
    assert_eq!((&report["verdict"], &report["pending_entries"]), (&"exact".into(), &5.into()), "{report}");
}

#[tokio::test]
async fn an_empty_database_and_one_of_another_prefix_are_one_line_and_an_exit_code_of_their_own() {
    let stack = Stack::start().await;
    let report = audit(&stack);
    assert_eq!(report["verdict"], "nothing_to_compare", "{report}");
    let output = run(&stack, &["audit"]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("nothing was ever settled in") && shown.contains("--database-url"), "{shown}");
    assert!(shown.contains(stack.redis.prefix()), "{shown}");

    enqueue(&stack, 0..2).await;
    flush(&stack).await;
    assert_eq!(audit(&stack)["verdict"], "exact");
    let report = audit_with(&stack, &["--prefix", "unheard-of"]);
    assert_eq!(report["verdict"], "nothing_to_compare", "{report}");
    let known = format!("prefix {}, 1 shard", stack.redis.prefix());
    assert!(says(&report, "remarks", &["no batch of prefix unheard-of", &known]), "{report}");
}

#[tokio::test]
async fn a_ledger_that_was_filled_from_an_older_queue_alone_is_nothing_to_compare_with() {
    let stack = Stack::start().await;
    let older = OlderQueue::new(format!("{}-older", stack.redis.prefix()).parse().unwrap());
    let entry =
        r#"{"request_id":"old-1","model":"m","spend":0.25,"team_id":"t","start":"2026-03-01T12:00:00Z"}"#;
    let client = redis::Client::open(stack.redis.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let list = format!("{}-older:spendlog", stack.redis.prefix());
    let _: u64 = redis::cmd("RPUSH").arg(list).arg(entry).query_async(&mut connection).await.unwrap();
    let options =
        Options::default().with_prefix(stack.redis.prefix().parse().unwrap()).with_older_queue(older);
    let hot = LiveRedis::open_with(stack.redis.url(), options).await.unwrap();
    let flusher = Flusher::new(hot, stack.ledger.clone());
    let step = flusher.step(Shard::OLDER, BatchLimit::MAX, now, || true).await;
    step.outcome.unwrap();
    assert_eq!(step.flushed.entries, 1);
    for words in [&[][..], &["--prefix", "unheard-of"]] {
        let report = audit_with(&stack, words);
        assert_eq!(report["verdict"], "nothing_to_compare", "{report}");
        assert!(says(&report, "remarks", &["no batch of prefix", "or of any other"]), "{report}");
    }
}

#[tokio::test]
async fn flushers_whose_clocks_are_five_seconds_apart_raise_no_alarm() {
    let stack = Stack::start().await;
    let (ahead, behind) = (now() + TimeDelta::seconds(5), now());
    for round in 0..4 {
        enqueue(&stack, round * 2..round * 2 + 2).await;
        flush_at(&stack, 1, if round % 2 == 0 { ahead } else { behind }).await;
        let report = audit(&stack);
        assert_eq!(report["verdict"], "exact", "round {round}: {report}");
    }
    enqueue(&stack, 8..9).await;
    assert_eq!(audit(&stack)["verdict"], "exact");
}

#[tokio::test]
async fn two_flushers_that_cut_the_same_entries_otherwise_raise_no_alarm() {
    let stack = Stack::start().await;
    enqueue(&stack, 0..10).await;
    let late = stack.hot.peek(shard(), BatchLimit::new(7).unwrap()).await.unwrap();
    flush_at(&stack, 5, now()).await;
    let batch = iam_ledger::Batch {
        epoch: &stack.hot.epoch(),
        shard: shard(),
        entries: &late.entries,
        committed_at: now() + TimeDelta::seconds(1),
    };
    let ledger =
        Ledger::connect(&stack.database.url().to_owned().into(), LedgerOptions::default()).await.unwrap();
    assert_eq!(ledger.commit(&batch).await.unwrap().duplicates, 7);
    let report = audit(&stack);
    assert_eq!(report["verdict"], "exact", "{report}");
}

#[tokio::test]
async fn a_redis_that_was_rewound_is_still_named() {
    let stack = Stack::start().await;
    enqueue(&stack, 0..3).await;
    flush_at(&stack, 1, now()).await;
    let mut connection = redis::Client::open(stack.redis.url()).unwrap().get_connection().unwrap();
    let state = format!("{}:{{0}}:state", stack.redis.prefix());
    let rewound: (String,) = redis::cmd("HMGET").arg(&state).arg("chain").query(&mut connection).unwrap();
    assert_eq!(rewound.0.len(), 40);
    let _: i64 = redis::cmd("DEL").arg(&state).query(&mut connection).unwrap();
    let report = audit(&stack);
    assert_eq!(checks(&report), ["queue.continuity"], "{report}");
    assert!(text(&stack, &["audit"]).contains("Redis knows no number, and 3 was settled"));
}
