//! What a commit sits out by itself: conflicts with others, and a COMMIT without an answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use iam_ledger::{Ledger, LedgerError, LedgerOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use url::Url;

use crate::support::{Fixture, batch, entries, event, scope, secret, usd};

/// Lets so many inserts of daily usage fail with this SQLSTATE. A sequence counts what is rolled back too.
async fn fail_first(fixture: &Fixture, times: usize, code: &str) {
    let set = format!(
        "drop trigger if exists fail on usage_daily; drop sequence if exists tries; create sequence tries; \
         create or replace function fail() returns trigger language plpgsql as \
         $$ begin if nextval('tries') <= {times} then raise exception 'in the way' using errcode = '{code}'; end if; \
            return null; end $$; \
         create trigger fail before insert on usage_daily for each statement execute function fail();"
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(set)).execute(&fixture.sql).await.unwrap();
}

#[tokio::test]
async fn serialization_failures_deadlocks_and_lock_timeouts_are_tried_again() {
    let fixture = Fixture::new().await;
    for code in ["40001", "40P01", "55P03"] {
        fail_first(&fixture, 3, code).await;
        let committed = fixture.commit(&entries(&[event(code, &["team/a"], Some("1"))])).await;
        assert_eq!(committed.new, 1, "{code}");
        assert_eq!(fixture.number("select last_value from tries").await, 4, "{code}");
    }
    assert_eq!(fixture.spent(&scope("team/a")).await, usd("3"));
}

/// A ledger whose sessions have this setting.
async fn with_setting(fixture: &Fixture, name: &str, value: &str) -> Ledger {
    let mut url = Url::parse(fixture.database.url()).unwrap();
    url.query_pairs_mut().append_pair(&format!("options[{name}]"), value);
    Ledger::connect(&secret(url.as_str()), LedgerOptions::default()).await.unwrap()
}

/// Until a session waits for a lock.
async fn somebody_waits(fixture: &Fixture) {
    let waiting = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
    while fixture.number(waiting).await == 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_commit_that_the_server_ends_in_a_deadlock_is_tried_again() {
    let fixture = Fixture::new().await;
    // Whose clock runs out first is ended: the commit, since the other looks for a deadlock only much later.
    let ledger = with_setting(&fixture, "deadlock_timeout", "2s").await;
    let entries = entries(&[event("r", &["team/a"], Some("1"))]);
    let batch = batch(&entries);
    let mut other = fixture.sql.begin().await.unwrap();
    for first in ["set local deadlock_timeout = '10min'", "lock table usage_daily in access exclusive mode"] {
        sqlx::query(first).execute(&mut *other).await.unwrap();
    }
    let (committed, ()) = tokio::join!(ledger.commit(&batch), async {
        // It has claimed its request ids, and waits for the daily sums; each has now what the other wants.
        somebody_waits(&fixture).await;
        sqlx::query("lock table settled_requests in access exclusive mode")
            .execute(&mut *other)
            .await
            .unwrap();
        other.rollback().await.unwrap();
    });
    assert_eq!(committed.unwrap().new, 1);
    assert_eq!(fixture.spent(&scope("team/a")).await, usd("1"));
    // A session reports what it met when it ends.
    ledger.close().await;
    let deadlocks = "select deadlocks from pg_stat_database where datname = current_database()";
    while fixture.number(deadlocks).await == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(fixture.number(deadlocks).await, 1);
}

#[tokio::test]
async fn a_commit_meets_no_serialization_failure_whatever_the_isolation_of_the_database() {
    let fixture = Fixture::new().await;
    fixture.commit(&entries(&[event("before", &["team/a"], Some("1"))])).await;
    // Counts attempts, and fails none.
    fail_first(&fixture, 0, "40001").await;
    let ledger = with_setting(&fixture, "default_transaction_isolation", "serializable").await;
    let entries = entries(&[event("r", &["team/a"], Some("1"))]);
    let batch = batch(&entries);
    let mut other = fixture.sql.begin().await.unwrap();
    sqlx::query("update usage_daily set events = events").execute(&mut *other).await.unwrap();
    let (committed, ()) = tokio::join!(ledger.commit(&batch), async {
        somebody_waits(&fixture).await;
        other.commit().await.unwrap();
    });
    assert_eq!(committed.unwrap().new, 1);
    assert_eq!(fixture.number("select last_value from tries").await, 1);
    assert_eq!(fixture.spent(&scope("team/a")).await, usd("2"));
}

#[tokio::test]
async fn a_conflict_that_does_not_pass_reaches_the_caller_after_a_few_attempts() {
    let fixture = Fixture::new().await;
    fail_first(&fixture, 1000, "40P01").await;
    let error = fixture.try_commit(&entries(&[event("r", &["team/a"], Some("1"))])).await.unwrap_err();
    assert_eq!(error.sqlstate().as_deref(), Some("40P01"));
    assert!(error.is_transient() && !error.blames_data());
    assert_eq!(fixture.number("select last_value from tries").await, 8);
}

#[tokio::test]
async fn other_errors_are_not_tried_again() {
    let fixture = Fixture::new().await;
    fail_first(&fixture, 1, "57014").await;
    let error = fixture.try_commit(&entries(&[event("r", &["team/a"], Some("1"))])).await.unwrap_err();
    assert_eq!(error.sqlstate().as_deref(), Some("57014"));
}

#[tokio::test]
async fn a_lock_timeout_of_the_session_is_sat_out() {
    let fixture = Fixture::new().await;
    let ledger = with_setting(&fixture, "lock_timeout", "20").await;
    let mut locked = fixture.sql.begin().await.unwrap();
    sqlx::query("lock table usage_daily in access exclusive mode").execute(&mut *locked).await.unwrap();
    let entries = entries(&[event("r", &["team/a"], Some("1"))]);
    let batch = batch(&entries);
    let (committed, ()) = tokio::join!(ledger.commit(&batch), async {
        // Until the commit has waited and was told off at least once.
        let waiting = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
        let rolled_back = "select xact_rollback from pg_stat_database where datname = current_database()";
        while fixture.number(waiting).await == 0 {
            tokio::task::yield_now().await;
        }
        let before = fixture.number(rolled_back).await;
        while fixture.number(rolled_back).await == before && fixture.number(waiting).await > 0 {
            tokio::task::yield_now().await;
        }
        locked.rollback().await.unwrap();
    });
    assert_eq!(committed.unwrap().new, 1);
}

#[tokio::test]
async fn a_session_that_dies_once_in_commit_is_replaced_and_the_batch_settled() {
    let fixture = Fixture::new().await;
    // A deferred trigger runs inside COMMIT, before anything is committed.
    fixture
        .run(
            "create sequence deaths; \
             create function die() returns trigger language plpgsql as \
             $$ begin if nextval('deaths') = 1 then perform pg_terminate_backend(pg_backend_pid()); end if; return null; end $$; \
             create constraint trigger die after insert on settled_requests deferrable initially deferred \
             for each row execute function die();",
        )
        .await;
    let committed = fixture.commit(&entries(&[event("r", &["team/a"], Some("1"))])).await;
    assert_eq!((committed.new, committed.duplicates), (1, 0));
    assert_eq!(fixture.spent(&scope("team/a")).await, usd("1"));
}

#[tokio::test]
async fn a_commit_whose_answer_is_lost_is_found_to_have_happened() {
    let fixture = Fixture::new().await;
    let lost = Arc::new(AtomicUsize::new(1));
    let ledger = through_proxy(&fixture, lost.clone()).await;
    let entries = entries(&[event("r", &["team/a"], Some("1")), event("s", &["team/a"], Some("1"))]);
    let committed = ledger.commit(&batch(&entries)).await.unwrap();
    assert_eq!((committed.new, committed.duplicates), (0, 2));
    assert_eq!(lost.load(Ordering::SeqCst), 0, "the answer was lost");
    assert_eq!(fixture.spent(&scope("team/a")).await, usd("2"));
    assert!(fixture.ledger.totals().await.unwrap().agree());
}

#[tokio::test]
async fn an_outcome_that_stays_unknown_is_said_to_be_unknown() {
    let fixture = Fixture::new().await;
    let ledger = through_proxy(&fixture, Arc::new(AtomicUsize::new(usize::MAX))).await;
    let entries = entries(&[event("r", &["team/a"], Some("1"))]);
    let error = ledger.commit(&batch(&entries)).await.unwrap_err();
    assert!(matches!(error, LedgerError::OutcomeUnknown { .. }), "{error}");
    assert_eq!(fixture.commit(&entries).await.duplicates, 1);
    assert_eq!(fixture.spent(&scope("team/a")).await, usd("1"));
}

/// A ledger whose connections break right after the server's answer to COMMIT, so many times.
async fn through_proxy(fixture: &Fixture, lost: Arc<AtomicUsize>) -> Ledger {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut url = Url::parse(fixture.database.url()).unwrap();
    let server = format!("{}:{}", url.host_str().unwrap(), url.port().unwrap());
    url.set_port(Some(listener.local_addr().unwrap().port())).unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(&server).await.unwrap();
            tokio::spawn(forward(client, server, lost.clone()));
        }
    });
    Ledger::connect(&secret(url.as_str()), LedgerOptions::default()).await.unwrap()
}

async fn forward(mut client: TcpStream, mut server: TcpStream, lost: Arc<AtomicUsize>) {
    let (mut from_client, mut from_server) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        tokio::select! {
            read = client.read(&mut from_client) => {
                let Ok(read @ 1..) = read else { return };
                let message = &from_client[..read];
                server.write_all(message).await.unwrap();
                let is_commit = message.windows(7).any(|part| part == b"COMMIT\0");
                let count = |left: usize| left.checked_sub(1);
                if is_commit && lost.fetch_update(Ordering::SeqCst, Ordering::SeqCst, count).is_ok() {
                    // The server has answered, so it has committed.
                    assert!(server.read(&mut from_server).await.unwrap() > 0);
                    return;
                }
            }
            read = server.read(&mut from_server) => {
                let Ok(read @ 1..) = read else { return };
                if client.write_all(&from_server[..read]).await.is_err() { return }
            }
        }
    }
}
