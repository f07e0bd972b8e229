//! Connecting: what a session is like, and what a failure says.

use std::time::Duration;

use iam_ledger::{Ledger, LedgerError, LedgerOptions};
use url::Url;

use crate::support::{Fixture, batch, connect, database, entries, event, secret};

const CANARY: &str = "canary-password";

/// The error of connecting to a changed URL, checked for what every such error owes.
async fn refused(change: impl FnOnce(&mut Url)) -> LedgerError {
    let database = database();
    let mut url = Url::parse(database.url()).unwrap();
    url.set_password(Some(CANARY)).unwrap();
    change(&mut url);
    let options = LedgerOptions { connect_timeout: Duration::from_secs(60), ..LedgerOptions::default() };
    let error = Ledger::connect(&secret(url.as_str()), options).await.unwrap_err();
    for text in [error.to_string(), format!("{error:?}"), format!("{error:#?}")] {
        assert!(!text.contains(CANARY), "{text}");
    }
    assert_eq!(error.to_string().lines().count(), 1, "{error}");
    assert!(std::error::Error::source(&error).is_none(), "the message is complete");
    error
}

#[tokio::test]
async fn a_wrong_password_is_named_and_not_shown() {
    let error = refused(|_| {}).await;
    assert!(error.to_string().contains("password authentication failed"), "{error}");
    assert!(!error.is_transient());
}

#[tokio::test]
async fn a_wrong_database_is_named() {
    let right = Url::parse(devstack::postgres().unwrap().url()).unwrap();
    let error = refused(|url| {
        // The right password, or the server would not tell.
        url.set_password(right.password()).unwrap();
        url.set_path("nowhere");
    })
    .await;
    assert!(
        error.to_string().contains("/nowhere: database \"nowhere\" does not exist (SQLSTATE 3D000)"),
        "{error}"
    );
    assert!(!error.to_string().contains(right.password().unwrap()));
}

#[tokio::test]
async fn a_closed_port_is_named_with_its_cause_and_is_transient() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let error = refused(|url| url.set_port(Some(port)).unwrap()).await;
    let text = error.to_string().to_lowercase();
    assert!(text.contains(&format!("127.0.0.1:{port}/")) && text.contains("refused"), "{error}");
    assert!(error.is_transient());
}

#[tokio::test]
async fn a_host_that_does_not_exist_is_named() {
    let error = refused(|url| url.set_host(Some("no-such-host.invalid")).unwrap()).await;
    assert!(
        error.to_string().starts_with("cannot connect to PostgreSQL at no-such-host.invalid:"),
        "{error}"
    );
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up_on() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://u:{CANARY}@{}/db", silent.local_addr().unwrap());
    let options = LedgerOptions { connect_timeout: Duration::from_millis(50), ..LedgerOptions::default() };
    let error = Ledger::connect(&secret(&url), options).await.unwrap_err();
    assert!(matches!(error, LedgerError::ConnectTimedOut { .. }) && error.is_transient(), "{error}");
}

#[tokio::test]
async fn the_handle_shows_its_target_and_no_password() {
    let database = database();
    let ledger = connect(&database, LedgerOptions::default()).await;
    let password = Url::parse(database.url()).unwrap().password().unwrap().to_owned();
    let debug = format!("{ledger:?}");
    assert!(debug.contains(database.name()) && !debug.contains(&password), "{debug}");
}

#[tokio::test]
async fn a_commit_is_on_disk_whatever_the_databases_default_is() {
    let fixture = Fixture::new().await;
    // The trigger writes down what the committing session is like.
    fixture
        .run(
            "create table seen (setting text); \
             create function look() returns trigger language plpgsql as $$ begin \
               insert into seen values (concat_ws(' ', current_setting('synchronous_commit'), current_setting('TimeZone'), \
                 current_setting('application_name'), current_setting('statement_timeout'), \
                 current_setting('idle_in_transaction_session_timeout'), current_setting('transaction_isolation'))); \
               return null; end $$; \
             create trigger look after insert on flush_log for each statement execute function look();",
        )
        .await;
    let name = fixture.database.name();
    for (default, expected) in [("off", "on"), ("local", "on"), ("remote_apply", "remote_apply")] {
        let sql = format!("alter database {name} set synchronous_commit = {default}; truncate seen");
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&fixture.sql).await.unwrap();
        let ledger = connect(&fixture.database, LedgerOptions::default()).await;
        ledger.commit(&batch(&entries(&[event(default, &["team/a"], None)]))).await.unwrap();
        let seen = fixture.text("select setting from seen").await;
        assert_eq!(seen, format!("{expected} UTC iam-ledger 30s 1min read committed"));
    }
}
