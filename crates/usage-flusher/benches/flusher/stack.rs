//! The servers, and what one measurement has of them.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use bench_frame::traffic::{ORGANIZATIONS, organization};
use devstack::{Database, PostgresServer, RedisServer};
use iam_ledger::{Ledger, LedgerOptions};
use live_redis::{LiveRedis, Options};
use spend_queue::{PendingSpend as _, ScopeRef, Shard, ShardCount, SpendQueue, Usd};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use crate::books::{Books, STATEMENTS};
use crate::hot::Hot;

/// The one shard of a default deployment.
pub(crate) fn shard() -> Shard {
    ShardCount::ONE.shard_of("any")
}

/// What all measurements share.
pub(crate) struct Servers {
    postgres: PostgresServer,
    runtime: Arc<Runtime>,
}

impl Servers {
    /// PostgreSQL as durable as it comes. A checkpoint would fall on one measurement and not on another.
    pub(crate) fn start() -> Result<Self> {
        let postgres = PostgresServer::builder()
            .setting("max_wal_size", "8GB")
            .setting("checkpoint_timeout", "30min")
            .setting("shared_preload_libraries", STATEMENTS)
            .start()
            .context("the bench needs a PostgreSQL server of its own, with its contrib modules")?;
        Books::connect(postgres.url())?.count_statements()?;
        // One worker: gateways are other machines, and should not take both cores.
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        Ok(Self { postgres, runtime: Arc::new(runtime) })
    }

    /// Versions and settings.
    pub(crate) fn describe(&self) -> Result<String> {
        let redis = redis_server()?;
        let (hot, postgres) =
            (Hot::connect(redis.url())?.version()?, Books::connect(self.postgres.url())?.version()?);
        Ok(format!("{hot}, append-only file each second; PostgreSQL {postgres}, fsync on"))
    }

    /// A database of its own, migrated, and a Redis of its own, so that none inherits another's heap.
    pub(crate) fn stack(&self, name: &'static str) -> Result<Stack> {
        let database = self.postgres.database(name)?;
        let stack = Stack {
            redis: redis_server()?,
            database,
            // Statistics are read from here, so that reading them is not counted.
            outside: self.postgres.url().to_owned(),
            runtime: self.runtime.clone(),
            folder: tempfile::tempdir()?,
        };
        stack.block_on(async {
            let ledger = stack.ledger().await?;
            ledger.migrate().await?;
            ledger.close().await;
            anyhow::Ok(())
        })?;
        Ok(stack)
    }
}

/// As docs/operations/persistence.md advises.
fn redis_server() -> Result<RedisServer> {
    RedisServer::builder().appendonly(true).start().context("the bench needs Redis servers of its own")
}

/// A deployment.
pub(crate) struct Stack {
    redis: RedisServer,
    database: Database,
    outside: String,
    runtime: Arc<Runtime>,
    folder: TempDir,
}

impl Stack {
    pub(crate) fn redis_url(&self) -> &str {
        self.redis.url()
    }

    pub(crate) fn database_url(&self) -> &str {
        self.database.url()
    }

    pub(crate) fn database_name(&self) -> &str {
        self.database.name()
    }

    /// The server's first database.
    pub(crate) fn outside_url(&self) -> &str {
        &self.outside
    }

    /// Where logs go.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) const fn runtime(&self) -> &Arc<Runtime> {
        &self.runtime
    }

    pub(crate) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    pub(crate) async fn client(&self, options: Options) -> Result<LiveRedis> {
        Ok(LiveRedis::open_with(self.redis.url(), options).await?)
    }

    /// With one connection.
    pub(crate) async fn ledger(&self) -> Result<Ledger> {
        let options = LedgerOptions { max_connections: 1, ..LedgerOptions::default() };
        Ok(Ledger::connect(&self.database.url().into(), options).await?)
    }

    pub(crate) fn depth(&self, redis: &LiveRedis) -> Result<u64> {
        Ok(self.block_on(redis.depth(shard()))?)
    }

    /// Proves that the ledger has exactly these events and this money in all its books, and that Redis has nothing left.
    pub(crate) fn prove(&self, redis: &LiveRedis, events: usize, cost: Usd) -> Result<()> {
        self.block_on(async {
            let ledger = self.ledger().await?;
            let totals = ledger.totals().await?;
            ledger.close().await;
            ensure!(totals.settled_requests == events as u64, "{events} events were sent: {totals:?}");
            ensure!(totals.agree() && totals.cost_by_events == cost, "{cost} was sent: {totals:?}");
            ensure!(redis.depth(shard()).await? == 0, "the queue is not empty");
            for number in 0..ORGANIZATIONS {
                let scope = ScopeRef::new("organization", organization(number))?;
                let left = redis.pending(&scope).await?;
                ensure!(left == Usd::ZERO, "{scope} has {left} pending");
            }
            Ok(())
        })
    }
}
