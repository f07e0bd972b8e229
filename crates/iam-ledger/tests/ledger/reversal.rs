//! Migrations up, down, and up again: the same schema to the last comment.

use iam_ledger::LedgerOptions;
use sqlx::migrate::Migrator;
use sqlx::postgres::PgPool;

use crate::support::{connect, database};

static MIGRATIONS: Migrator = sqlx::migrate!();

/// Everything that migrations make, a line each, in an order that does not depend on when it was made.
const SCHEMA: &str = "\
    with ours as (select oid from pg_namespace where nspname = 'public'), \
    line (text) as ( \
        select format('relation %s %s %s %s', c.relname, c.relkind, c.reloptions, obj_description(c.oid, 'pg_class')) \
        from pg_class c where relnamespace in (table ours) \
        union all \
        select format('column %s.%s %s %s %s %s %s', c.relname, \
                      row_number() over (partition by c.oid order by a.attnum), a.attname, format_type(a.atttypid, a.atttypmod), \
                      a.attnotnull, pg_get_expr(d.adbin, d.adrelid), col_description(c.oid, a.attnum)) \
        from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped \
        left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum \
        where relnamespace in (table ours) and c.relkind in ('r', 'p', 'v', 'c') \
        union all \
        select format('constraint %s %s %s', conrelid::regclass, conname, pg_get_constraintdef(oid)) \
        from pg_constraint where connamespace in (table ours) \
        union all \
        select format('index %s %s', indexrelid::regclass, pg_get_indexdef(indexrelid)) \
        from pg_index join pg_class c on c.oid = indexrelid where relnamespace in (table ours) \
        union all \
        select format('function %s %s', pg_get_functiondef(oid), obj_description(oid, 'pg_proc')) \
        from pg_proc where pronamespace in (table ours) \
        union all \
        select format('type %s %s %s', typname, typtype, obj_description(oid, 'pg_type')) \
        from pg_type where typnamespace in (table ours) and typtype = 'd' \
        union all \
        select format('view %s %s', viewname, definition) from pg_views where schemaname = 'public' \
        union all \
        select format('trigger %s', pg_get_triggerdef(t.oid)) \
        from pg_trigger t join pg_class c on c.oid = tgrelid where relnamespace in (table ours) and not tgisinternal \
    ) \
    select coalesce(string_agg(text, e'\\n' order by text collate \"C\"), '') from line where text !~ '_sqlx_migrations'";

async fn schema(sql: &PgPool) -> String {
    sqlx::query_scalar(SCHEMA).fetch_one(sql).await.unwrap()
}

#[tokio::test]
async fn all_migrations_up_down_and_up_again_make_the_same_schema() {
    let database = database();
    let sql = PgPool::connect(database.url()).await.unwrap();
    let nothing = schema(&sql).await;
    MIGRATIONS.run(&sql).await.unwrap();
    let first = schema(&sql).await;
    assert!(first.contains("constraint dead_letters dead_letters_entry_key"), "{first}");
    MIGRATIONS.undo(&sql, 0).await.unwrap();
    assert_eq!(schema(&sql).await, nothing);
    MIGRATIONS.run(&sql).await.unwrap();
    let again = schema(&sql).await;
    let changed: Vec<&str> = first.lines().filter(|line| !again.contains(line)).collect();
    assert!(first == again, "{changed:#?}");
}

#[tokio::test]
async fn each_migration_can_be_undone_alone_and_done_again() {
    let database = database();
    let sql = PgPool::connect(database.url()).await.unwrap();
    let mut versions: Vec<i64> = MIGRATIONS
        .iter()
        .filter(|migration| migration.migration_type.is_up_migration())
        .map(|migration| migration.version)
        .collect();
    versions.sort_unstable();
    MIGRATIONS.run(&sql).await.unwrap();
    let whole = schema(&sql).await;
    for before in versions.iter().rev().skip(1).chain([&0]) {
        MIGRATIONS.undo(&sql, *before).await.unwrap();
        MIGRATIONS.run(&sql).await.unwrap();
        let again = schema(&sql).await;
        let changed: Vec<&str> = whole.lines().filter(|line| !again.contains(line)).collect();
        assert!(again == whole, "undone to {before} and done again: {changed:#?}");
    }
    drop(connect(&database, LedgerOptions::default()).await);
}
