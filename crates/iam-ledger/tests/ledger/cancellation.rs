//! Commits that are dropped half-way, cut off, or left in the dark.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use iam_ledger::{LedgerError, LedgerOptions};

use crate::support::{Fixture, batch, connect, entries, event, scope, usd};

/// Polls a future so many times at most, then drops it.
async fn dropped_after<F: Future>(polls: usize, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut polled = 0;
    poll_fn(|context| {
        if polled == polls {
            return Poll::Ready(None);
        }
        polled += 1;
        future.as_mut().poll(context).map(Some)
    })
    .await
}

#[tokio::test]
async fn a_commit_dropped_at_any_await_leaves_no_open_transaction_and_can_be_run_again() {
    let options = LedgerOptions { max_connections: 1, ..LedgerOptions::default() };
    let fixture = Fixture::with(options).await;
    let mut dropped = 0;
    // How often a commit is polled depends on how fast answers come; it is done long before the last round.
    for polls in 0..40 {
        let entries = entries(&[event(&format!("r-{polls}"), &["team/a"], Some("1"))]);
        let answer = dropped_after(polls, fixture.ledger.commit(&batch(&entries))).await;
        dropped += usize::from(answer.is_none());
        // The pool has one connection: this waits until the dropped one is back or replaced.
        fixture.ledger.totals().await.unwrap();
        let closed = tokio::time::timeout(Duration::from_secs(20), no_open_transaction(&fixture)).await;
        assert!(closed.is_ok(), "a transaction is open after {polls} polls");
        let again = fixture.commit(&entries).await;
        assert_eq!(again.new + again.duplicates, 1, "dropped after {polls} polls");
        assert_eq!(fixture.spent(&scope("team/a")).await, usd(&(polls + 1).to_string()));
    }
    assert!((2..40).contains(&dropped), "{dropped} commits were dropped");
    assert!(fixture.ledger.totals().await.unwrap().agree());
}

/// Waits for the server to have noticed that a connection was closed.
async fn no_open_transaction(fixture: &Fixture) {
    let open =
        "select count(*) from pg_stat_activity where datname = current_database() and state like 'idle in%'";
    while fixture.number(open).await > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_session_that_dies_in_commit_leaves_the_outcome_unknown_and_the_same_batch_finds_out() {
    let fixture = Fixture::new().await;
    // A deferred trigger runs inside COMMIT.
    fixture
        .run(
            "create function die() returns trigger language plpgsql as \
             $$ begin perform pg_terminate_backend(pg_backend_pid()); return null; end $$; \
             create constraint trigger die after insert on settled_requests deferrable initially deferred \
             for each row execute function die();",
        )
        .await;
    let entries = entries(&[event("r", &["team/a"], Some("1"))]);
    let error = fixture.try_commit(&entries).await.unwrap_err();
    assert!(matches!(error, LedgerError::OutcomeUnknown { .. }), "{error:?}");
    assert!(error.is_transient() && error.to_string().contains("run the same batch again"), "{error}");
    fixture.run("drop trigger die on settled_requests").await;
    assert_eq!(fixture.commit(&entries).await.new, 1);
    assert_eq!(fixture.spent(&scope("team/a")).await, usd("1"));
}

#[tokio::test]
async fn a_statement_that_takes_too_long_is_transient_and_rolled_back() {
    // Hasty only for the commit: on a busy machine making the schema may well take longer.
    let fixture = Fixture::new().await;
    let options = LedgerOptions { statement_timeout: Duration::from_millis(50), ..LedgerOptions::default() };
    let hasty = connect(&fixture.database, options).await;
    let mut locked = fixture.sql.begin().await.unwrap();
    sqlx::query("lock table scope_spend in access exclusive mode").execute(&mut *locked).await.unwrap();
    let entries = entries(&[event("r", &["team/a"], Some("1"))]);
    let error = hasty.commit(&batch(&entries)).await.unwrap_err();
    assert_eq!(error.sqlstate().as_deref(), Some("57014"), "{error}");
    assert!(error.is_transient() && !error.blames_data());
    locked.rollback().await.unwrap();
    assert_eq!(fixture.ledger.totals().await.unwrap().settled_requests, 0);
    assert_eq!(fixture.commit(&entries).await.new, 1);
}

#[tokio::test]
async fn a_killed_session_is_transient_and_replaced() {
    let options = LedgerOptions { max_connections: 1, ..LedgerOptions::default() };
    let fixture = Fixture::with(options).await;
    fixture
        .run(
            "create function die() returns trigger language plpgsql as \
             $$ begin perform pg_terminate_backend(pg_backend_pid()); return null; end $$; \
             create trigger die after insert on usage_daily for each statement execute function die();",
        )
        .await;
    let entries = entries(&[event("r", &["team/a"], Some("1"))]);
    let error = fixture.try_commit(&entries).await.unwrap_err();
    assert!(error.is_transient() && !matches!(error, LedgerError::OutcomeUnknown { .. }), "{error}");
    fixture.run("drop trigger die on usage_daily").await;
    assert_eq!(fixture.commit(&entries).await.new, 1);
}

#[tokio::test]
async fn a_pool_in_use_is_busy_and_says_so() {
    let options = LedgerOptions {
        max_connections: 1,
        acquire_timeout: Duration::from_millis(500),
        ..LedgerOptions::default()
    };
    let fixture = Fixture::with(options).await;
    let mut locked = fixture.sql.begin().await.unwrap();
    sqlx::query("lock table settled_requests in access exclusive mode").execute(&mut *locked).await.unwrap();
    let ledger = fixture.ledger.clone();
    let waiting = entries(&[event("r", &["team/a"], Some("1"))]);
    let first = tokio::spawn({
        let waiting = waiting.clone();
        async move { ledger.commit(&batch(&waiting)).await }
    });
    let blocked = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
    while fixture.number(blocked).await == 0 {
        tokio::task::yield_now().await;
    }
    let error = fixture.try_commit(&waiting).await.unwrap_err();
    assert!(matches!(error, LedgerError::Busy { .. }) && error.is_transient(), "{error}");
    locked.rollback().await.unwrap();
    assert_eq!(first.await.unwrap().unwrap().new, 1);
}
