//! The doctor on real servers that are as they should be, and that are not.

use devstack::{Durability, PostgresServer};
use iam_ledger::{Ledger, LedgerOptions};
use spend_queue::{Finding, Severity};

use crate::support::{Fixture, connect, entries, event, secret};

fn not_ok(findings: &[Finding]) -> Vec<(&str, Severity)> {
    let bad = findings.iter().filter(|finding| finding.severity != Severity::Ok);
    bad.map(|finding| (finding.check, finding.severity)).collect()
}

#[tokio::test]
async fn a_durable_migrated_database_has_nothing_but_a_note_on_its_plain_local_session() {
    let server = PostgresServer::builder().durability(Durability::Durable).start().unwrap();
    let database = server.database("healthy").unwrap();
    let ledger = connect(&database, LedgerOptions::default()).await;
    let pending = ledger.doctor().await;
    assert!(not_ok(&pending).contains(&("postgresql.migrations", Severity::Fatal)), "{pending:#?}");
    ledger.migrate().await.unwrap();
    let findings = ledger.doctor().await;
    assert_eq!(not_ok(&findings), [("postgresql.encryption", Severity::Note)], "{findings:#?}");
    let checks: Vec<_> =
        findings.iter().map(|finding| finding.check.trim_start_matches("postgresql.")).collect();
    let all = [
        "version",
        "role",
        "fsync",
        "full_page_writes",
        "synchronous_commit",
        "time_zone",
        "clock",
        "encryption",
        "migrations",
        "partitions",
    ];
    assert_eq!(checks, all);
    ledger.close().await;
}

#[tokio::test]
async fn settings_that_lose_commits_are_named() {
    let server = PostgresServer::builder().durability(Durability::Fast).start().unwrap();
    let database = server.database("careless").unwrap();
    let ledger = connect(&database, LedgerOptions::default()).await;
    ledger.migrate().await.unwrap();
    let findings = ledger.doctor().await;
    let found = not_ok(&findings);
    assert!(found.contains(&("postgresql.fsync", Severity::Fatal)), "{findings:#?}");
    assert!(found.contains(&("postgresql.full_page_writes", Severity::Warning)), "{findings:#?}");
    ledger.close().await;
}

#[tokio::test]
async fn months_without_a_partition_and_events_in_the_default_one_are_warned_about() {
    let fixture = Fixture::new().await;
    fixture
        .run("do $$ declare name text; begin for name in select inhrelid::regclass::text from pg_inherits \
              where inhparent = 'usage_events'::regclass and inhrelid::regclass::text <> 'usage_events_default' \
              loop execute 'drop table ' || name; end loop; end $$")
        .await;
    let findings = fixture.ledger.doctor().await;
    let partitions = findings.iter().find(|finding| finding.check == "postgresql.partitions").unwrap();
    assert_eq!(partitions.severity, Severity::Warning);
    assert!(partitions.what.contains("this month has no partition"), "{partitions:?}");

    fixture.commit(&entries(&[event("r1", &["team/t"], Some("0.5"))])).await;
    let findings = fixture.ledger.doctor().await;
    let partitions = findings.iter().find(|finding| finding.check == "postgresql.partitions").unwrap();
    assert!(partitions.what.contains("1 event is in the default partition"), "{partitions:?}");
}

#[tokio::test]
async fn a_newer_and_a_changed_schema_are_fatal_in_their_own_words() {
    let fixture = Fixture::new().await;
    fixture.run("update _sqlx_migrations set checksum = '\\x00' where version = 1").await;
    let findings = fixture.ledger.doctor().await;
    let migrations = findings.iter().find(|finding| finding.check == "postgresql.migrations").unwrap();
    assert!(
        migrations.severity == Severity::Fatal && migrations.mend.contains("which build"),
        "{migrations:?}"
    );
    fixture.run("insert into _sqlx_migrations values (9999, 'later', now(), true, '\\x00', 0)").await;
    let findings = fixture.ledger.doctor().await;
    let migrations = findings.iter().find(|finding| finding.check == "postgresql.migrations").unwrap();
    assert!(migrations.severity == Severity::Fatal && migrations.mend.contains("deploy"), "{migrations:?}");
}

#[tokio::test]
async fn a_server_that_is_gone_is_one_fatal_finding() {
    let mut server = PostgresServer::builder().durability(Durability::Fast).start().unwrap();
    let database = server.database("gone").unwrap();
    let options =
        LedgerOptions { acquire_timeout: std::time::Duration::from_secs(1), ..LedgerOptions::default() };
    let ledger = connect(&database, options).await;
    server.kill();
    let findings = ledger.doctor().await;
    assert_eq!(not_ok(&findings), [("postgresql.reachable", Severity::Fatal)], "{findings:#?}");
    let url = format!("postgres://u:canary-password@127.0.0.1:{}/d", server.port());
    let error = Ledger::connect(&secret(&url), LedgerOptions::default()).await.unwrap_err();
    let finding = Ledger::connect_finding(&error);
    assert_eq!((finding.check, finding.severity), ("postgresql.reachable", Severity::Fatal));
    assert!(!format!("{finding:?}").contains("canary"), "{finding:?}");
    server.start_again().unwrap();
}
