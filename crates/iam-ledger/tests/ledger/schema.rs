//! Migrations and the promises of the schema itself.

use iam_ledger::{LedgerError, LedgerOptions, MigrationStatus};
use sqlx::migrate::Migrator;

use crate::support::{Fixture, connect, database, entries, event};

static MIGRATIONS: Migrator = sqlx::migrate!();

/// Those that the program knows, in order.
fn versions() -> Vec<i64> {
    let up = MIGRATIONS.iter().filter(|migration| migration.migration_type.is_up_migration());
    up.map(|migration| migration.version).collect()
}

#[tokio::test]
async fn a_ledger_that_was_undone_is_migrated_again_and_works() {
    let fixture = Fixture::new().await;
    MIGRATIONS.undo(&fixture.sql, 0).await.unwrap();
    assert!(matches!(fixture.ledger.require_migrated().await, Err(LedgerError::MigrationsPending(_))));
    fixture.ledger.migrate().await.unwrap();
    fixture.ledger.require_migrated().await.unwrap();
    assert_eq!(fixture.commit(&entries(&[event("r", &["team/a"], Some("1"))])).await.new, 1);
}

#[tokio::test]
async fn an_empty_database_is_refused_with_the_command_that_mends_it() {
    let database = database();
    let ledger = connect(&database, LedgerOptions::default()).await;
    let status = ledger.migration_status().await.unwrap();
    assert_eq!(status, MigrationStatus { pending: versions(), ..MigrationStatus::default() });
    let error = ledger.require_migrated().await.unwrap_err();
    let list = versions().iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
    let expected = format!("the database lacks migration {list}; run `usage-flusher migrate` first");
    assert_eq!(error.to_string(), expected);
    assert!(!error.is_transient());
}

#[tokio::test]
async fn a_database_that_is_newer_or_other_than_the_program_is_left_alone() {
    let fixture = Fixture::new().await;
    fixture.run("insert into _sqlx_migrations values (9999, 'later', now(), true, '', 0)").await;
    let error = fixture.ledger.migrate().await.unwrap_err();
    assert!(matches!(&error, LedgerError::MigrationsNewer(versions) if *versions == [9999]), "{error}");
    assert!(error.to_string().contains("upgrade the program"));
    fixture.run("delete from _sqlx_migrations where version = 9999; update _sqlx_migrations set checksum = '' where version = 2").await;
    let error = fixture.ledger.require_migrated().await.unwrap_err();
    assert!(matches!(&error, LedgerError::MigrationsDiffer(versions) if *versions == [2]), "{error}");
}

#[tokio::test]
async fn two_hosts_may_migrate_at_once() {
    let database = database();
    let one = connect(&database, LedgerOptions::default()).await;
    let two = connect(&database, LedgerOptions::default()).await;
    let (first, second) = tokio::join!(one.migrate(), two.migrate());
    first.unwrap();
    second.unwrap();
    one.require_migrated().await.unwrap();
}

#[tokio::test]
async fn migrating_again_changes_nothing() {
    let fixture = Fixture::new().await;
    let tables = "select count(*) from pg_class";
    let before = fixture.number(tables).await;
    fixture.ledger.migrate().await.unwrap();
    assert_eq!(fixture.number(tables).await, before);
}

#[tokio::test]
async fn this_month_and_the_next_two_have_a_partition() {
    let fixture = Fixture::new().await;
    let missing = "select count(*) from generate_series(0, 2) n where to_regclass('usage_events_' || \
                   to_char(now() at time zone 'UTC' + make_interval(months => n), 'YYYY_MM')) is null";
    assert_eq!(fixture.number(missing).await, 0);
}

#[tokio::test]
async fn every_table_and_column_has_a_comment() {
    let fixture = Fixture::new().await;
    let silent = "select coalesce(string_agg(format('%s.%s', c.relname, a.attname), ' '), '') \
                  from pg_class c \
                  join pg_namespace n on n.oid = c.relnamespace and n.nspname = 'public' \
                  join lateral ( \
                      select null::name as attname, 0 as attnum \
                      union all \
                      select attname, attnum from pg_attribute where attrelid = c.oid and attnum > 0 and not attisdropped \
                  ) a on true \
                  where c.relkind in ('r', 'p', 'v') and not c.relispartition and c.relname <> '_sqlx_migrations' \
                    and col_description(c.oid, a.attnum) is null and (a.attnum > 0 or obj_description(c.oid) is null)";
    assert_eq!(fixture.text(silent).await, "");
}

#[tokio::test]
async fn no_constraint_has_a_name_that_the_server_made_up() {
    let fixture = Fixture::new().await;
    // PostgreSQL's own names: a check on a domain or table ends in _check, a unique or foreign key repeats its columns.
    let made_up = "select coalesce(string_agg(conname, ' '), '') from pg_constraint \
                   join pg_namespace n on n.oid = connamespace and n.nspname = 'public' \
                   where conname ~ '_check[0-9]*$' or conname ~ '_id_fkey[0-9]*$' or conname ~ '_id_key[0-9]*$'";
    assert_eq!(fixture.text(made_up).await, "");
}
