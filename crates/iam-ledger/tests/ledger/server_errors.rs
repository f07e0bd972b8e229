//! What PostgreSQL says when it cannot settle a batch: whether it passes by itself, as the operators' page has it.

use std::time::Duration;

use devstack::{Database, Durability, PostgresServer};
use iam_ledger::{Ledger, LedgerError, LedgerOptions};
use sqlx::PgPool;
use url::Url;

use crate::support::{batch, connect, entries, event, secret};

const PAGE: &str = include_str!("../../../../docs/operations/errors-postgresql.md");

/// A server of one's own, since these tests stop it, fill it and change its settings.
struct Server {
    server: PostgresServer,
    database: Database,
    sql: PgPool,
}

impl Server {
    async fn start() -> Self {
        let server = PostgresServer::builder().durability(Durability::Fast).start().unwrap();
        let database = server.database("errors").unwrap();
        let owner = connect(&database, LedgerOptions::default()).await;
        owner.migrate().await.unwrap();
        owner.close().await;
        let sql = PgPool::connect(database.url()).await.unwrap();
        Self { server, database, sql }
    }

    async fn run(&self, sql: impl Into<String>) {
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql.into())).execute(&self.sql).await.unwrap();
    }

    async fn ledger(&self) -> Ledger {
        connect(&self.database, LedgerOptions::default()).await
    }

    /// The database as another role.
    fn url_of(&self, role: &str, password: &str) -> String {
        let mut url = Url::parse(self.database.url()).unwrap();
        url.set_username(role).unwrap();
        url.set_password(Some(password)).unwrap();
        url.into()
    }
}

/// Whether the page says that this SQLSTATE passes.
fn documented(code: &str) -> bool {
    let row = PAGE.lines().find(|line| line.starts_with(&format!("| `{code}` |")));
    let row = row.unwrap_or_else(|| panic!("{code} is not on the page"));
    row.split(" | ").nth(2).unwrap() == "yes"
}

fn says(error: &LedgerError, code: &str) {
    assert_eq!(error.sqlstate().as_deref(), Some(code), "{error}");
    assert_eq!(error.is_transient(), documented(code), "{code}: {error}");
    assert!(!error.blames_data(), "{error}");
}

async fn commit(ledger: &Ledger, id: &str) -> Result<(), LedgerError> {
    ledger.commit(&batch(&entries(&[event(id, &["team/a"], Some("1"))]))).await.map(drop)
}

async fn refused(ledger: &Ledger) -> LedgerError {
    commit(ledger, "refused").await.unwrap_err()
}

#[tokio::test]
async fn what_only_an_operator_can_mend_does_not_pass() {
    let server = Server::start().await;
    server.run("create role stranger login password 'p'").await;
    let options = LedgerOptions::default;
    let wrong = Ledger::connect(&secret(&server.url_of("stranger", "wrong")), options()).await.unwrap_err();
    says(&wrong, "28P01");
    let nobody = Ledger::connect(&secret(&server.url_of("nobody", "p")), options()).await.unwrap_err();
    assert!(!nobody.is_transient(), "{nobody}");
    let mut url = Url::parse(server.database.url()).unwrap();
    url.set_path("no_such_database");
    says(&Ledger::connect(&secret(url.as_str()), options()).await.unwrap_err(), "3D000");
    let ledger = Ledger::connect(&secret(&server.url_of("stranger", "p")), options()).await.unwrap();
    says(&refused(&ledger).await, "42501");
    let empty = server.server.database("empty").unwrap();
    let ledger = connect(&empty, options()).await;
    says(&refused(&ledger).await, "42P01");
    let pending = ledger.require_migrated().await.unwrap_err();
    assert!(matches!(pending, LedgerError::MigrationsPending(_)) && !pending.is_transient());
    assert!(pending.to_string().contains("usage-flusher migrate"), "{pending}");
}

#[tokio::test]
async fn time_outs_and_full_connections_pass_and_time_outs_ask_for_smaller_batches() {
    let server = Server::start().await;
    let mut locked = server.sql.begin().await.unwrap();
    sqlx::query("lock table flush_log in access exclusive mode").execute(&mut *locked).await.unwrap();
    let short = LedgerOptions { statement_timeout: Duration::from_millis(100), ..LedgerOptions::default() };
    let error = refused(&connect(&server.database, short).await).await;
    says(&error, "57014");
    assert!(error.is_too_slow() && !error.is_unavailable());
    server.run(format!("alter database {} set lock_timeout = '20ms'", server.database.name())).await;
    let error = refused(&server.ledger().await).await;
    says(&error, "55P03");
    assert!(error.is_too_slow());
    locked.rollback().await.unwrap();

    server.run("create role one login password 'p' connection limit 1").await;
    let url = server.url_of("one", "p");
    let _only = PgPool::connect(&url).await.unwrap();
    let error = Ledger::connect(&secret(&url), LedgerOptions::default()).await.unwrap_err();
    says(&error, "53300");
    assert!(error.is_unavailable() && !error.is_too_slow());
}

/// Each code of the page that a statement can be refused with, raised by the server itself at a commit's first write.
#[tokio::test]
async fn every_sqlstate_of_the_page_is_judged_as_it_says() {
    let server = Server::start().await;
    server
        .run(
            "create function refuse() returns trigger language plpgsql as \
             $$ begin execute format('do $x$ begin raise exception using errcode = %L; end $x$', current_setting('test.code')); end $$; \
             create trigger refuse before insert on settled_requests for each statement execute function refuse()",
        )
        .await;
    let codes: Vec<&str> = PAGE
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .filter(|code| !code.contains("xxx"))
        .collect();
    assert!(codes.len() > 20, "{codes:?}");
    for code in codes {
        server.run(format!("alter database {} set test.code = '{code}'", server.database.name())).await;
        let error = refused(&server.ledger().await).await;
        says(&error, code);
    }
}

#[tokio::test]
async fn a_server_that_stops_and_starts_again_is_asked_again() {
    let mut server = Server::start().await;
    let ledger = server.ledger().await;
    commit(&ledger, "before").await.unwrap();
    // Its session is ended while it waits.
    let mut locked = server.sql.begin().await.unwrap();
    sqlx::query("lock table flush_log in access exclusive mode").execute(&mut *locked).await.unwrap();
    let (other, waits) = (ledger.clone(), "select pid from pg_stat_activity where wait_event_type = 'Lock'");
    let commits = tokio::spawn(async move { refused(&other).await });
    let pid: i32 = loop {
        if let Some(pid) = sqlx::query_scalar(waits).fetch_optional(&server.sql).await.unwrap() {
            break pid;
        }
        tokio::task::yield_now().await;
    };
    server.run(format!("select pg_terminate_backend({pid})")).await;
    let error = commits.await.unwrap();
    says(&error, "57P01");
    assert!(error.is_unavailable());
    locked.rollback().await.unwrap();

    // A smart shutdown lets those stay who are in, and nobody else in.
    let held = server.sql.acquire().await.unwrap();
    server.run("copy (select 1) to program 'kill -TERM $(head -n 1 postmaster.pid)'").await;
    let refused_at_the_door = loop {
        match Ledger::connect(&secret(server.database.url()), LedgerOptions::default()).await {
            Ok(ledger) => ledger.close().await,
            Err(error) => break error,
        }
    };
    says(&refused_at_the_door, "57P03");
    assert!(refused_at_the_door.is_unavailable());
    drop(held);
    server.sql.close().await;
    ledger.close().await;
    server.server.stop().unwrap();
    let down = Ledger::connect(&secret(server.database.url()), LedgerOptions::default()).await.unwrap_err();
    assert!(down.is_transient() && down.is_unavailable(), "{down}");
    server.server.start_again().unwrap();
    commit(&server.ledger().await, "after").await.unwrap();
}

#[tokio::test]
async fn a_fenced_primary_is_not_written_to_and_passes_when_the_fence_is_gone() {
    let server = Server::start().await;
    let ledger = server.ledger().await;
    commit(&ledger, "before").await.unwrap();
    let fence = async |on: &str| {
        server.run(format!("alter system set default_transaction_read_only = {on}")).await;
        server.run("select pg_reload_conf()").await;
    };
    fence("on").await;
    // Sessions that are open learn of it at their next statement.
    let error = loop {
        if let Err(error) = commit(&ledger, "fenced").await {
            break error;
        }
    };
    says(&error, "25006");
    assert!(matches!(error, LedgerError::Standby { .. }) && error.is_unavailable());
    let admin = PgPool::connect(server.server.url()).await.unwrap();
    let mut admin = admin.acquire().await.unwrap();
    for statement in [
        "set default_transaction_read_only = off",
        "alter system reset default_transaction_read_only",
        "select pg_reload_conf()",
    ] {
        sqlx::raw_sql(statement).execute(&mut *admin).await.unwrap();
    }
    while let Err(error) = commit(&ledger, "after").await {
        says(&error, "25006");
    }
}

#[tokio::test]
async fn a_full_disk_passes_when_there_is_room_again() {
    let server = Server::start().await;
    // The kernel's own device for a disk without room, in the place of one table's file: no file system has to be mounted, which
    // needs rights that not everybody has.
    let file: String = sqlx::query_scalar("select pg_relation_filepath('usage_events_default')")
        .fetch_one(&server.sql)
        .await
        .unwrap();
    server.run(format!("copy (select 1) to program 'cat > /dev/null; ln -sf /dev/full {file}'")).await;
    let ledger = server.ledger().await;
    // In a month without a partition.
    let mut undated = event("full", &["team/a"], Some("1"));
    undated.started_at = Some("1999-01-01T00:00:00Z".parse().unwrap());
    let full = entries(&[undated]);
    let error = ledger.commit(&batch(&full)).await.unwrap_err();
    says(&error, "53100");
    let settled = ledger.totals().await.unwrap();
    assert!(settled.agree(), "{settled:?}");
    server.run("vacuum full usage_events_default").await;
    assert_eq!(ledger.commit(&batch(&full)).await.unwrap().new, 1);
}
