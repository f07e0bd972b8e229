//! A migrated database of one's own, and short ways to make entries.

use std::sync::LazyLock;

use chrono::{DateTime, Utc};
use devstack::TestDatabase;
use iam_ledger::{Batch, Committed, Keyring, Ledger, LedgerError, LedgerOptions, Pepper};
use secrecy::SecretString;
use spend_queue::{Chain, Entry, Epoch, ScopeRef, Shard, ShardCount, SpendEvent, Usd};
use sqlx::postgres::{PgArguments, PgPool};

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
        // The limits of a test are for what it does, not for the migrations before it.
        let owner = connect(&database, LedgerOptions::default()).await;
        owner.migrate().await.unwrap();
        owner.close().await;
        let ledger = connect(&database, options).await;
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
    Batch { epoch: epoch(), shard: shard(), entries, committed_at: commit_time() }
}

/// The epoch of all tests that need only one.
pub(crate) fn epoch() -> &'static Epoch {
    static EPOCH: LazyLock<Epoch> = LazyLock::new(|| Epoch::new("tests", ShardCount::ONE));
    &EPOCH
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
    entries_at(events, commit_time())
}

/// The same, enqueued at another time.
pub(crate) fn entries_at(events: &[SpendEvent], now: DateTime<Utc>) -> Vec<Entry> {
    let mut chain = Chain::GENESIS;
    (1..)
        .zip(events)
        .map(|(seq, event)| {
            let encoded = event.encode(now).unwrap();
            chain = encoded.chain_after(chain, seq);
            Entry::decode(encoded.entry(seq, chain).into_bytes()).unwrap()
        })
        .collect()
}

/// A plan of the server, to be asserted about.
pub(crate) struct Plan {
    query: &'static str,
    whole: serde_json::Value,
}

impl Plan {
    /// The plan of a query file for these arguments, whose values the planner knows.
    pub(crate) async fn of(sql: &PgPool, query: &'static str, arguments: PgArguments) -> Self {
        let explain = sqlx::AssertSqlSafe(format!("explain (format json)\n{query}"));
        let whole = sqlx::query_scalar_with(explain, arguments).fetch_one(sql).await.unwrap();
        Self { query, whole }
    }

    /// Asserts that rows are found by this index: by a scan of it, or because it decides what conflicts.
    pub(crate) fn uses(&self, index: &str) -> &Self {
        self.uses_one_of(&[index])
    }

    /// Asserts that rows are found by one of these indexes, where the planner has a choice that its statistics decide.
    pub(crate) fn uses_one_of(&self, indexes: &[&str]) -> &Self {
        assert!(
            self.values("Index Name")
                .chain(self.values("Conflict Arbiter Indexes"))
                .any(|name| indexes.contains(&name)),
            "none of {indexes:?} is used\n{self}"
        );
        self
    }

    /// Asserts that none of these tables is read from end to end, nor a partition of one.
    pub(crate) fn never_reads_all_of(&self, tables: &[&str]) -> &Self {
        for node in self.nodes().filter(|node| node["Node Type"] == "Seq Scan") {
            let name = node["Relation Name"].as_str().unwrap();
            assert!(!tables.iter().any(|table| name.starts_with(table)), "all of {name} is read\n{self}");
        }
        self
    }

    fn nodes(&self) -> impl Iterator<Item = &serde_json::Value> {
        let mut open = vec![&self.whole[0]["Plan"]];
        std::iter::from_fn(move || {
            let node = open.pop()?;
            open.extend(node["Plans"].as_array().into_iter().flatten());
            Some(node)
        })
    }

    /// What the nodes say under this name; lists are taken apart.
    fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.nodes().flat_map(move |node| match &node[name] {
            serde_json::Value::Array(list) => list.iter().filter_map(serde_json::Value::as_str).collect(),
            one => one.as_str().into_iter().collect::<Vec<_>>(),
        })
    }
}

impl std::fmt::Display for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}\n{:#}", self.query, self.whole)
    }
}
