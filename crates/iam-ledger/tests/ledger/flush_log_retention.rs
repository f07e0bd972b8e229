//! Pruning the flush log: what goes, what stays, and that an audit finds the same breaks as before.

use chrono::{DateTime, TimeDelta, Utc};
use iam_ledger::FlushBreak;
use proptest::prelude::*;

use crate::support::{Fixture, commit_time, epoch, shard};

/// A batch in the log: its numbers, and how many days ago it was committed.
#[derive(Debug, Clone, Copy)]
struct Row(i64, i64, i64);

const RETENTION_DAYS: i64 = 90;

fn horizon() -> DateTime<Utc> {
    commit_time() - TimeDelta::days(RETENTION_DAYS)
}

async fn log(fixture: &Fixture, rows: &[Row]) {
    fixture.run("truncate flush_log").await;
    for (place, Row(first, last, days)) in (0_u64..).zip(rows) {
        // A link of its own for each row: two histories with the same number differ in it.
        let mut link = [0; 20];
        link[..8].copy_from_slice(&place.to_be_bytes());
        sqlx::query("insert into flush_log values ($1, $2, $3, $4, $5, $6, $7, $8)")
            .bind(epoch().prefix())
            .bind(i32::from(epoch().shards().get()))
            .bind(i32::from(shard().index()))
            .bind(first)
            .bind(last)
            .bind(link.as_slice())
            .bind(i32::try_from(last - first + 1).unwrap())
            .bind(commit_time() - TimeDelta::days(*days))
            .execute(&fixture.sql)
            .await
            .unwrap();
    }
}

async fn prune(fixture: &Fixture, limit: u32) -> u64 {
    fixture.ledger.prune_flush_log(epoch(), shard(), horizon(), limit).await.unwrap()
}

async fn last_numbers(fixture: &Fixture) -> Vec<i64> {
    sqlx::query_scalar("select last_seq from flush_log order by last_seq, chain")
        .fetch_all(&fixture.sql)
        .await
        .unwrap()
}

async fn breaks(fixture: &Fixture) -> Vec<FlushBreak> {
    fixture.ledger.audit(epoch(), 1_000).await.unwrap().breaks
}

#[tokio::test]
async fn old_batches_go_and_young_ones_and_the_last_one_stay() {
    let fixture = Fixture::new().await;
    log(&fixture, &[Row(1, 10, 200), Row(11, 20, 100), Row(21, 30, 89), Row(31, 40, 1)]).await;
    assert_eq!(prune(&fixture, 100).await, 2);
    assert_eq!(last_numbers(&fixture).await, [30, 40]);
    assert_eq!(prune(&fixture, 100).await, 0, "again changes nothing");
    assert_eq!(breaks(&fixture).await, []);

    log(&fixture, &[Row(1, 10, 300), Row(11, 20, 200)]).await;
    assert_eq!(prune(&fixture, 100).await, 1);
    let last = fixture.ledger.last_flush(epoch(), shard()).await.unwrap();
    assert_eq!(last.map(|end| end.seq), Some(20), "where an idle queue goes on is still known");
}

#[tokio::test]
async fn it_goes_in_small_batches_and_other_shards_are_left_alone() {
    let fixture = Fixture::new().await;
    let rows: Vec<Row> = (0..25).map(|n| Row(n * 10 + 1, n * 10 + 10, 200 - n)).collect();
    log(&fixture, &rows).await;
    fixture
        .run(
            "insert into flush_log select prefix, shards, 7, first_seq, last_seq, chain, events, committed_at from flush_log",
        )
        .await;
    let mut taken = Vec::new();
    while taken.last() != Some(&0) {
        taken.push(prune(&fixture, 10).await);
    }
    assert_eq!(taken, [10, 10, 4, 0]);
    assert_eq!(fixture.number("select count(*) from flush_log where shard = 7").await, 25);
}

#[tokio::test]
async fn clocks_that_differ_between_flushers_do_not_stop_it() {
    let fixture = Fixture::new().await;
    // The second batch seems younger than the third: another flusher's clock is ahead.
    log(&fixture, &[Row(1, 1, 120), Row(2, 2, 118), Row(3, 3, 119), Row(4, 4, 117), Row(5, 5, 0)]).await;
    assert_eq!(prune(&fixture, 100).await, 4);
}

#[tokio::test]
async fn after_a_rewind_the_newer_history_keeps_its_end_and_the_older_one_what_lies_above() {
    let fixture = Fixture::new().await;
    let old = (0..10).map(|n| Row(n * 10 + 1, n * 10 + 10, 400));
    let new = [Row(1, 10, 200), Row(11, 20, 199)];
    log(&fixture, &old.chain(new).collect::<Vec<_>>()).await;
    let before = breaks(&fixture).await;
    assert_eq!(before.len(), 2, "two numbers have two histories: {before:?}");
    prune(&fixture, 100).await;
    let last = fixture.ledger.last_flush(epoch(), shard()).await.unwrap();
    assert_eq!(last.map(|end| end.seq), Some(100), "the greatest number, of the older history");
    let newer = fixture.ledger.flushes_ending_at(epoch(), shard(), 20).await.unwrap();
    let latest = newer.iter().map(|end| end.committed_at).max();
    assert_eq!(latest, Some(commit_time() - TimeDelta::days(199)), "the end of the newer history stays too");
    let after = breaks(&fixture).await;
    assert!(after.iter().all(|found| before.contains(found)), "{after:?}");
    assert_eq!(fixture.number("select max(last_seq) from flush_log").await, 100);
}

/// Any log: histories that overlap, begin anew, leave gaps, and clocks that disagree.
fn logs() -> impl Strategy<Value = Vec<Row>> {
    prop::collection::vec((1_i64..60, 0_i64..12, 0_i64..200), 1..25)
        .prop_map(|rows| rows.into_iter().map(|(first, more, days)| Row(first, first + more, days)).collect())
}

#[test]
fn whatever_the_log_pruning_makes_no_break_and_keeps_young_batches_and_the_last_one() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let fixture = runtime.block_on(Fixture::new());
    proptest!(ProptestConfig { cases: 60, ..ProptestConfig::default() }, |(rows in logs(), limit in 1_u32..30)| {
        runtime.block_on(async {
            log(&fixture, &rows).await;
            let (breaks_before, last_before) =
                (breaks(&fixture).await, fixture.ledger.last_flush(epoch(), shard()).await.unwrap());
            let young = "select count(*) from flush_log where committed_at >= '2025-12-05T12:00:00Z'";
            let young_before = fixture.number(young).await;
            while prune(&fixture, limit).await > 0 {}
            let after = breaks(&fixture).await;
            assert!(after.iter().all(|found| breaks_before.contains(found)), "{after:?} of {breaks_before:?}");
            assert_eq!(fixture.ledger.last_flush(epoch(), shard()).await.unwrap(), last_before);
            assert_eq!(fixture.number(young).await, young_before);
        });
    });
}
