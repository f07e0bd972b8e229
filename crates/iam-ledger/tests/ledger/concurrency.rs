//! Several committers at once.

use iam_ledger::LedgerOptions;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use spend_queue::{Entry, SpendEvent};

use crate::support::{Fixture, batch, connect, entries, event, scope, usd};

const COMMITTERS: usize = 4;
const EVENTS: usize = 400;

/// Half of the events name their scopes in one order, half in the other.
fn events() -> Vec<SpendEvent> {
    (0..EVENTS)
        .map(|n| {
            let scopes = if n % 2 == 0 { ["team/a", "team/b"] } else { ["team/b", "team/a"] };
            let mut event = event(&format!("r-{n}"), &scopes, Some("0.0000027"));
            event.organization_id = Some(format!("o-{}", n % 3));
            event
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn overlapping_batches_of_several_committers_add_up_and_never_deadlock() {
    let fixture = Fixture::new().await;
    let all = entries(&events());
    let mut committers = Vec::new();
    for committer in 0..COMMITTERS {
        // Every committer has a pool of its own and everything to commit, in an order of its own, in batches that overlap.
        let ledger = connect(&fixture.database, LedgerOptions::default()).await;
        let mut mine: Vec<Entry> = all.clone();
        mine.shuffle(&mut ChaCha8Rng::seed_from_u64(committer as u64));
        committers.push(tokio::spawn(async move {
            let mut new = 0;
            for start in (0..EVENTS).step_by(20) {
                let part = &mine[start..EVENTS.min(start + 50)];
                let committed = ledger.commit(&batch(part)).await.unwrap();
                assert_eq!(committed.new + committed.duplicates, part.len() as u64);
                new += committed.new;
            }
            new
        }));
    }
    let mut new = 0;
    for committer in committers {
        new += committer.await.unwrap();
    }
    assert_eq!(new, EVENTS as u64);
    let totals = fixture.ledger.totals().await.unwrap();
    assert!(totals.agree() && totals.cost_by_events == usd("0.00108"), "{totals:?}");
    for team in ["team/a", "team/b"] {
        assert_eq!(fixture.spent(&scope(team)).await, usd("0.00108"));
    }
    assert_eq!(
        fixture.number("select deadlocks from pg_stat_database where datname = current_database()").await,
        0
    );
}

/// Eight flushers, of which every second meets the scopes in the opposite order, each with every batch twice, some with
/// an entry that is refused, so that bisected batches meet whole ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn eight_flushers_with_replays_and_refusals_add_up_and_no_deadlock_is_seen() {
    const FLUSHERS: usize = 8;
    const EACH: usize = 150;
    let fixture = Fixture::new().await;
    let events: Vec<SpendEvent> = (0..FLUSHERS * EACH)
        .map(|n| {
            let scopes = if n % 2 == 0 { ["team/a", "team/b"] } else { ["team/b", "team/a"] };
            let mut event = event(&format!("r-{n}"), &scopes, Some("0.0000027"));
            event.organization_id = Some(format!("o-{}", n % 5));
            event.model = format!("m-{}", n % 3);
            event
        })
        .collect();
    let mut all = entries(&events);
    let bad: Vec<usize> = (0..all.len()).step_by(173).collect();
    for &n in &bad {
        all[n].event.status = "\0".into();
    }
    let mut flushers = Vec::new();
    for flusher in 0..FLUSHERS {
        let ledger = connect(&fixture.database, LedgerOptions::default()).await;
        // Its own share and its neighbour's, in a direction of its own.
        let range = flusher * EACH..((flusher + 2) * EACH).min(all.len());
        let mut mine: Vec<Entry> = all[range].to_vec();
        if flusher % 2 == 1 {
            mine.reverse();
        }
        flushers.push(tokio::spawn(async move {
            let mut new = 0;
            for part in mine.chunks(60) {
                for _ in 0..2 {
                    let committed = ledger.commit(&batch(part)).await.unwrap();
                    let seen = committed.new + committed.duplicates + committed.refused;
                    assert_eq!((seen, &*committed.conflicts), (part.len() as u64, &[][..]));
                    new += committed.new;
                }
            }
            new
        }));
    }
    let mut new = 0;
    for flusher in flushers {
        new += flusher.await.unwrap();
    }
    let good = (all.len() - bad.len()) as u64;
    let sum = usd("0.0000027").checked_mul(good).unwrap();
    let totals = fixture.ledger.totals().await.unwrap();
    assert_eq!((new, totals.settled_requests, totals.events, totals.daily_events), (good, good, good, good));
    assert!(totals.agree() && totals.cost_by_events == sum, "{totals:?}");
    for team in ["team/a", "team/b"] {
        let periods = fixture.ledger.spend_of(&scope(team)).await.unwrap();
        assert_eq!(
            periods.iter().map(|period| (period.spend, period.paid_events)).collect::<Vec<_>>(),
            [(sum, good)]
        );
    }
    assert_eq!(fixture.number("select count(*) from dead_letters").await, bad.len() as i64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_committer_that_waited_for_another_sees_what_that_one_stored() {
    let fixture = Fixture::new().await;
    // An open transaction holds the id; the commit must wait for it and then compare payloads.
    let mut other = fixture.sql.begin().await.unwrap();
    sqlx::query("insert into settled_requests values ('r', decode(repeat('00', 16), 'hex'), now())")
        .execute(&mut *other)
        .await
        .unwrap();
    let ledger = fixture.ledger.clone();
    let entries = entries(&[event("r", &["team/a"], Some("1")), event("s", &["team/a"], Some("1"))]);
    let waiting = tokio::spawn(async move { ledger.commit(&batch(&entries)).await });
    let blocked = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
    while fixture.number(blocked).await == 0 {
        tokio::task::yield_now().await;
    }
    other.commit().await.unwrap();
    let committed = waiting.await.unwrap().unwrap();
    assert_eq!((committed.new, committed.conflicts), (1, vec!["r".to_owned()]));
    assert_eq!(fixture.spent(&scope("team/a")).await, usd("1"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_are_made_while_others_commit() {
    let fixture = Fixture::new().await;
    let all = entries(&events());
    let (ledger, writer) = (fixture.ledger.clone(), fixture.ledger.clone());
    let writing = tokio::spawn(async move {
        for part in all.chunks(20) {
            writer.commit(&batch(part)).await.unwrap();
        }
    });
    let made = tokio::join!(ledger.ensure_partitions(None, 30), ledger.ensure_partitions(None, 30));
    writing.await.unwrap();
    assert_eq!(made.0.unwrap() + made.1.unwrap(), 27, "migrate made three, and two callers share the rest");
    assert!(fixture.ledger.totals().await.unwrap().agree());
}
