//! What the tests of this crate share.

#![allow(dead_code, reason = "each test binary uses its own part")]
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::process::{Child, Command, Stdio};

use chrono::{DateTime, Utc};
use devstack::{TestDatabase, TestRedis};
use iam_ledger::{Ledger, LedgerOptions};
use live_redis::{LiveRedis, Options};
use spend_queue::{EncodedEvent, ScopeRef, Shard, ShardCount, SpendEvent, Usd};

pub(crate) fn now() -> DateTime<Utc> {
    "2026-03-01T12:00:30Z".parse().unwrap()
}

pub(crate) fn team() -> ScopeRef {
    ScopeRef::new("team", "t").unwrap()
}

pub(crate) fn event(id: &str, picos: i64) -> EncodedEvent {
    let mut event = SpendEvent::new(id, "m", vec![team(), ScopeRef::new("organization", "o").unwrap()]);
    event.cost = Some(Usd::from_picos(picos.into()));
    event.organization_id = Some("o".into());
    event.started_at = Some(now());
    event.encode(now()).unwrap()
}

pub(crate) fn shard() -> Shard {
    ShardCount::ONE.shard_of("any")
}

/// A key prefix and a database of a test's own.
pub(crate) struct Stack {
    pub(crate) redis: TestRedis,
    pub(crate) database: TestDatabase,
    pub(crate) hot: LiveRedis,
    pub(crate) ledger: Ledger,
}

impl Stack {
    pub(crate) async fn start() -> Self {
        let redis = devstack::redis().unwrap().test();
        let database = devstack::postgres().unwrap().database("flusher").unwrap();
        let options = Options::default().with_prefix(redis.prefix().parse().unwrap());
        let hot = LiveRedis::open_with(redis.url(), options).await.unwrap();
        let url = database.url().to_owned().into();
        let ledger = Ledger::connect(&url, LedgerOptions::default()).await.unwrap();
        ledger.migrate().await.unwrap();
        Self { redis, database, hot, ledger }
    }

    /// The flusher's binary against this stack.
    pub(crate) fn flusher(&self) -> Command {
        let mut command = binary();
        command
            .args(["run", "--log-format", "json", "--linger-ms", "5", "--idle-ms", "20"])
            .env("TALLYWEIR_REDIS_URL", self.redis.url())
            .env("TALLYWEIR_DATABASE_URL", self.database.url())
            .env("TALLYWEIR_PREFIX", self.redis.prefix())
            // The tests' PostgreSQL does not fsync, for which a strict start refuses it.
            .env("TALLYWEIR_LENIENT_START", "true")
            .stderr(Stdio::piped());
        command
    }
}

/// The binary with none of the surrounding settings.
pub(crate) fn binary() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_usage-flusher"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("TALLYWEIR_")) {
        command.env_remove(name);
    }
    command
}

pub(crate) fn terminate(child: &Child) {
    assert!(Command::new("kill").arg("-TERM").arg(child.id().to_string()).status().unwrap().success());
}
