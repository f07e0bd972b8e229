//! Which levels and budgets a path has is remembered; an answer never is.

use std::future::{Future, ready};
use std::sync::atomic::{AtomicU32, Ordering};

use chrono::{DateTime, Utc};
use iam_ledger::{LedgerOptions, QuotaError, QuotaPath};
use spend_queue::{PendingQuery, PendingSpend, ScopeRef, Usd};
use sqlx::PgPool;

use crate::hot::{Hot, Silent};
use crate::quota::company;
use crate::support::{Fixture, at, commit_time, connect, entries_at, event, scope, usd};

async fn read(ledger: &iam_ledger::Ledger, now: DateTime<Utc>) -> Option<QuotaPath> {
    match ledger.quota_path(&scope("key/bob-key"), &Hot::default(), now).await {
        Ok(path) => Some(path),
        Err(QuotaError::UnknownSubject(_)) => None,
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn every_change_of_the_configuration_is_in_the_next_answer() {
    let fixture = Fixture::new().await;
    company(&fixture).await;
    // By hand: whoever changes the tables, triggers count the change.
    let changes = [
        "update api_keys set budget_usd = 4 where id = 'bob-key'",
        "update api_keys set budget_usd = null where id = 'bob-key'",
        "update users set budget_usd = 3 where id = 'bob'",
        "update teams set budget_usd = 41 where id = 'red'",
        "update teams set budget_usd = null where id = 'red'",
        "update teams set blocked = true where id = 'blue'",
        "update organizations set budget_period = 'daily' where id = 'o'",
        "update organizations set budget_period = 'weekly', budget_time_zone = 'Asia/Tokyo' where id = 'o'",
        "insert into users (id, organization_id, team_id, name, budget_usd) values ('eve', 'o', 'blue', '', 7)",
        "update users set team_id = 'red' where id = 'eve'",
        "delete from users where id = 'eve'",
        "update users set team_id = 'red' where id = 'bob'",
        "update users set team_id = null where id = 'bob'",
        "insert into organizations (id, name, budget_usd) values ('other', '', 50)",
        "update api_keys set organization_id = 'other', user_id = null where id = 'bob-key'",
        "update organizations set budget_usd = 51 where id = 'other'",
        "delete from api_keys where id = 'bob-key'",
        "insert into api_keys (id, organization_id, name, budget_usd) values ('bob-key', 'o', '', 1)",
    ];
    let mut before = read(&fixture.ledger, commit_time()).await;
    for change in changes {
        fixture.run(change).await;
        let remembered = read(&fixture.ledger, commit_time()).await;
        let ledger = connect(&fixture.database, LedgerOptions::default()).await;
        assert_eq!(remembered, read(&ledger, commit_time()).await, "{change}");
        if !change.starts_with("insert into organizations") && !change.ends_with("id = 'eve'") {
            assert_ne!(remembered, before, "{change}");
        }
        before = remembered;
    }
}

#[tokio::test]
async fn amounts_are_those_of_now_in_the_period_that_is_asked_for() {
    let fixture = Fixture::new().await;
    company(&fixture).await;
    let settled = async |now| read(&fixture.ledger, at(now)).await.unwrap().levels[3].settled;
    let spend = async |id, start| {
        let mut spent = event(id, &["organization/o"], Some("2"));
        spent.started_at = Some(at(start));
        fixture.commit(&entries_at(&[spent], at("2026-04-01T00:00:00Z"))).await;
    };
    spend("r-1", "2026-03-31T23:59:00Z").await;
    assert_eq!(settled("2026-03-31T23:59:59Z").await, usd("2"));
    spend("r-2", "2026-03-31T23:59:30Z").await;
    assert_eq!(settled("2026-03-31T23:59:59Z").await, usd("4"));
    assert_eq!(settled("2026-04-01T00:00:00Z").await, usd("0"));
    assert_eq!(
        settled("2026-03-31T23:59:59Z").await,
        usd("4"),
        "who asks a little late is not answered for April"
    );
}

#[tokio::test]
async fn a_remembered_path_reads_none_of_the_tables_of_identities() {
    let fixture = Fixture::new().await;
    company(&fixture).await;
    read(&fixture.ledger, commit_time()).await.unwrap();
    let mut lock = fixture.sql.begin().await.unwrap();
    let tables = "lock table organizations, teams, projects, users, api_keys in access exclusive mode";
    sqlx::query(tables).execute(&mut *lock).await.unwrap();
    // It would wait for the lock until its statement is cancelled.
    read(&fixture.ledger, commit_time()).await.unwrap();
    lock.rollback().await.unwrap();
}

/// An empty queue that raises a budget in the middle of the first reads of hot money, and may keep the last amount to itself.
struct Meddling {
    sql: PgPool,
    times: AtomicU32,
    withholds: bool,
}

impl PendingSpend for Meddling {
    type Error = Silent;

    fn pending(&self, _: &ScopeRef) -> impl Future<Output = Result<Usd, Silent>> + Send {
        ready(Ok(Usd::ZERO))
    }

    fn pending_since(&self, _: &str, _: DateTime<Utc>) -> impl Future<Output = Result<Usd, Silent>> + Send {
        ready(Ok(Usd::ZERO))
    }

    async fn pending_key(&self, id: &str) -> Result<Usd, Silent> {
        let left = |times: u32| times.checked_sub(1);
        if self.times.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left).is_ok() {
            let raise = sqlx::query("update api_keys set budget_usd = budget_usd + 1 where id = $1");
            raise.bind(id).execute(&self.sql).await.unwrap();
        }
        Ok(Usd::ZERO)
    }

    async fn pending_all(&self, queries: &[PendingQuery]) -> Result<Vec<Usd>, Silent> {
        for query in queries {
            if let PendingQuery::Key(id) = query {
                self.pending_key(id).await?;
            }
        }
        Ok(vec![Usd::ZERO; queries.len() - usize::from(self.withholds)])
    }
}

#[tokio::test]
async fn a_budget_that_changes_while_it_is_read_is_read_again_and_not_for_ever() {
    let fixture = Fixture::new().await;
    company(&fixture).await;
    let read = async |times| {
        let hot = Meddling { sql: fixture.sql.clone(), times: AtomicU32::new(times), withholds: false };
        fixture.ledger.quota_path(&scope("key/bob-key"), &hot, commit_time()).await
    };
    for (times, budget) in [(0, "5"), (1, "6"), (2, "8")] {
        assert_eq!(read(times).await.unwrap().levels[0].budget, Some(usd(budget)));
    }
    let error = read(u32::MAX).await.unwrap_err();
    assert!(matches!(&error, QuotaError::Changing(subject) if *subject == scope("key/bob-key")), "{error}");
    assert!(error.is_transient());
}

#[tokio::test]
async fn an_amount_that_is_missing_is_an_error_and_not_zero() {
    let fixture = Fixture::new().await;
    company(&fixture).await;
    let hot = Meddling { sql: fixture.sql.clone(), times: AtomicU32::new(0), withholds: true };
    let error = fixture.ledger.quota_path(&scope("key/bob-key"), &hot, commit_time()).await.unwrap_err();
    assert!(matches!(error, QuotaError::Incomplete { asked: 2, answered: 1 }), "{error}");
    assert!(!error.is_transient());
}
