//! A primary and its standby: nothing is settled on the wrong one, no budget is read from it, and a promotion is found at once.

use std::time::Duration;

use devstack::{Durability, PostgresServer};
use iam_ledger::{Ledger, LedgerError, LedgerOptions, NewIdentity, QuotaError};
use spend_queue::{Severity, Shard};

use crate::hot::Hot;
use crate::support::{batch, commit_time, connect, entries, event, scope, secret, shard, usd};

fn server() -> PostgresServer {
    PostgresServer::builder().durability(Durability::Fast).start().unwrap()
}

fn is_standby(error: &LedgerError) -> bool {
    matches!(error, LedgerError::Standby { .. }) && error.is_transient() && error.is_unavailable()
}

#[tokio::test]
async fn a_standby_is_refused_at_connecting_and_taken_once_it_is_promoted() {
    let mut primary = server();
    let database = primary.database("pair").unwrap();
    let owner = connect(&database, LedgerOptions::default()).await;
    owner.migrate().await.unwrap();
    owner.commit(&batch(&entries(&[event("r-1", &["team/a"], Some("1"))]))).await.unwrap();
    let standby = primary.standby().unwrap();
    owner.commit(&batch(&entries(&[event("r-2", &["team/a"], Some("2"))]))).await.unwrap();
    let url = database.url().replace(&format!(":{}/", primary.port()), &format!(":{}/", standby.port()));
    let error = Ledger::connect(&secret(&url), LedgerOptions::default()).await.unwrap_err();
    assert!(is_standby(&error), "{error}");
    assert_eq!(
        error.to_string(),
        "connecting: the server is a standby, or read-only; it is asked again until it is a primary"
    );
    let finding = Ledger::connect_finding(&error);
    assert_eq!((finding.check, finding.severity), ("postgresql.role", Severity::Fatal));
    owner.close().await;
    primary.stop().unwrap();
    standby.promote().unwrap();
    let ledger = Ledger::connect(&secret(&url), LedgerOptions::default()).await.unwrap();
    let again = entries(&[event("r-2", &["team/a"], Some("2")), event("r-3", &["team/a"], Some("4"))]);
    let committed = ledger.commit(&batch(&again)).await.unwrap();
    assert_eq!((committed.new, committed.duplicates), (1, 1), "what was replicated is known");
    ledger.close().await;
    database.keep();
}

#[tokio::test]
async fn a_server_that_became_a_standby_settles_nothing_holds_no_shard_and_tells_no_budget() {
    let mut server = server();
    let database = server.database("demoted").unwrap();
    let options = LedgerOptions {
        acquire_timeout: Duration::from_secs(5),
        // As gateways have it: connections that were used a moment ago are not asked first.
        probe_after_idle: Duration::from_secs(60),
        ..LedgerOptions::default()
    };
    let ledger = connect(&database, options).await;
    ledger.migrate().await.unwrap();
    let budget = iam_ledger::Budget { amount: Some(usd("10")), ..iam_ledger::Budget::default() };
    ledger.create(&NewIdentity::organization("o", "").with_budget(budget)).await.unwrap();
    let subject = scope("organization/o");
    let quota = async || ledger.quota_path(&subject, &Hot::default(), commit_time()).await;
    quota().await.unwrap();
    let mut locks = ledger.shard_locks("p", Duration::from_secs(10));
    assert_eq!(locks.hold(&[shard()]).await.unwrap().len(), 1);
    let batch_of = entries(&[event("r-1", &["organization/o"], Some("1"))]);
    let commit = async || ledger.commit(&batch(&batch_of)).await;

    server.demote().unwrap();
    // Each connection breaks once; what takes its place says what the server is.
    let mut until_standby = 0;
    while !commit().await.is_err_and(|error| is_standby(&error)) {
        until_standby += 1;
        assert!(until_standby < 10);
    }
    let of_quota = loop {
        match quota().await.unwrap_err() {
            QuotaError::Ledger(error) if is_standby(&error) => break error,
            error => assert!(error.is_transient(), "{error}"),
        }
    };
    assert!(of_quota.to_string().starts_with("reading a path's"), "{of_quota}");
    let of_locks = loop {
        let held: Result<Vec<Shard>, _> =
            locks.hold(&[shard()]).await.map(|held| held.iter().copied().collect());
        match held.unwrap_err() {
            error if is_standby(&error) => break error,
            error => assert!(error.is_transient(), "{error}"),
        }
    };
    assert_eq!(of_locks.sqlstate().as_deref(), Some("25006"));
    let role = ledger.doctor().await.into_iter().find(|finding| finding.check == "postgresql.role").unwrap();
    assert_eq!(role.severity, Severity::Fatal);

    server.promote().unwrap();
    assert_eq!(commit().await.unwrap().new, 1);
    assert_eq!(quota().await.unwrap().levels[0].settled, usd("1"));
    assert_eq!(locks.hold(&[shard()]).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_stale_primary_that_was_fenced_tells_no_budget_on_connections_that_stayed_open() {
    let mut server = server();
    let database = server.database("fenced").unwrap();
    let options = LedgerOptions {
        probe_after_idle: Duration::from_secs(60),
        generic_plans: true,
        ..LedgerOptions::default()
    };
    let ledger = connect(&database, options).await;
    ledger.migrate().await.unwrap();
    let budget = iam_ledger::Budget { amount: Some(usd("10")), ..iam_ledger::Budget::default() };
    ledger.create(&NewIdentity::organization("o", "").with_budget(budget)).await.unwrap();
    let subject = scope("organization/o");
    let quota = async || ledger.quota_path(&subject, &Hot::default(), commit_time()).await;
    for _ in 0..3 {
        quota().await.unwrap();
    }
    database
        .execute("fence", "alter system set default_transaction_read_only = on")
        .and_then(|()| database.execute("reload", "select pg_reload_conf()"))
        .unwrap();
    let error = loop {
        if let Err(error) = quota().await {
            break error;
        }
    };
    assert!(matches!(&error, QuotaError::Ledger(error) if is_standby(error)), "{error}");
    ledger.close().await;
    server.kill();
    database.keep();
}
