//! A migrated database of one's own, and short ways to make entries.

use chrono::{DateTime, Utc};
use devstack::TestDatabase;
use iam_ledger::{Batch, Committed, Keyring, Ledger, LedgerError, LedgerOptions, Pepper};
use secrecy::SecretString;
use spend_queue::{Chain, Entry, ScopeRef, Shard, ShardCount, SpendEvent, Usd};
use sqlx::postgres::PgPool;

/// What most tests need. The database is dropped with it.
pub(crate) struct Fixture {
    pub(crate) ledger: Ledger,
    /// A way around the ledger, to look and to break things.
    pub(crate) sql: PgPool,
    pub(crate) database: TestDatabase,
}

pub(crate) fn database() -> TestDatabase {
    devstack::postgres().unwrap().database("ledger").unwrap()
}

pub(crate) async fn connect(database: &TestDatabase, options: LedgerOptions) -> Ledger {
    Ledger::connect(&secret(database.url()), options).await.unwrap()
}

pub(crate) fn secret(url: &str) -> SecretString {
    url.into()
}

impl Fixture {
    pub(crate) async fn new() -> Self {
        Self::with(LedgerOptions::default()).await
    }

    pub(crate) async fn with(options: LedgerOptions) -> Self {
        let database = database();
        let ledger = connect(&database, options).await;
        ledger.migrate().await.unwrap();
        let sql = PgPool::connect(database.url()).await.unwrap();
        Self { ledger, sql, database }
    }

    /// Secrets under the pepper of all tests.
    pub(crate) fn keyring(&self) -> Keyring {
        Keyring::new(self.ledger.clone(), Pepper::new(vec![7; 32]).unwrap())
    }

    pub(crate) async fn commit(&self, entries: &[Entry]) -> Committed {
        self.try_commit(entries).await.unwrap()
    }

    pub(crate) async fn try_commit(&self, entries: &[Entry]) -> Result<Committed, LedgerError> {
        self.ledger.commit(&batch(entries)).await
    }

    /// The only value of the only row, as text.
    pub(crate) async fn text(&self, sql: &'static str) -> String {
        sqlx::query_scalar(sql).fetch_one(&self.sql).await.unwrap()
    }

    pub(crate) async fn number(&self, sql: &'static str) -> i64 {
        sqlx::query_scalar(sql).fetch_one(&self.sql).await.unwrap()
    }

    pub(crate) async fn run(&self, sql: &'static str) {
        sqlx::raw_sql(sql).execute(&self.sql).await.unwrap();
    }

    /// Total spend of a scope over all periods.
    pub(crate) async fn spent(&self, scope: &ScopeRef) -> Usd {
        let periods = self.ledger.spend_of(scope).await.unwrap();
        Usd::checked_sum(periods.into_iter().map(|period| period.spend)).unwrap()
    }
}

pub(crate) fn at(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

/// The committer's clock of all tests.
pub(crate) fn commit_time() -> DateTime<Utc> {
    at("2026-03-05T12:00:00Z")
}

pub(crate) fn batch(entries: &[Entry]) -> Batch<'_> {
    Batch { shard: shard(), entries, committed_at: commit_time() }
}

pub(crate) fn shard() -> Shard {
    ShardCount::ONE.iter().next().unwrap()
}

pub(crate) fn usd(text: &str) -> Usd {
    text.parse().unwrap()
}

pub(crate) fn scope(text: &str) -> ScopeRef {
    text.parse().unwrap()
}

/// An event of one token each way that charges these scopes.
pub(crate) fn event(id: &str, scopes: &[&str], cost: Option<&str>) -> SpendEvent {
    let mut event = SpendEvent::new(id, "small", scopes.iter().map(|text| scope(text)).collect());
    event.cost = cost.map(usd);
    event.started_at = Some(at("2026-03-05T11:00:00Z"));
    event.prompt_tokens = 1;
    event.completion_tokens = 1;
    event
}

/// Consecutive entries with these events, as a queue would hold them.
pub(crate) fn entries(events: &[SpendEvent]) -> Vec<Entry> {
    let mut chain = Chain::GENESIS;
    (1..)
        .zip(events)
        .map(|(seq, event)| {
            let encoded = event.encode(commit_time()).unwrap();
            chain = encoded.chain_after(chain, seq);
            Entry::decode(encoded.entry(seq, chain).into_bytes()).unwrap()
        })
        .collect()
}
