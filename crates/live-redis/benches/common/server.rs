//! The server under measurement: clients of the fast path, a plain connection, and the server's own counters.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use chrono::{DateTime, TimeDelta, Utc};
use live_redis::{LiveRedis, Options};
use rate_plan::{RateTree, minute_of};
use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;

/// Far above what any call here takes.
const DEADLINE: Duration = Duration::from_secs(60);

/// More entries than any bench queues: what a long queue in doubt costs is measured, whatever the default bound.
const SCAN_BOUND: u32 = 2_000_000;

pub(crate) struct Server {
    /// A client that sends each admission by itself.
    pub(crate) single: LiveRedis,
    /// A client that batches what waits, as by default.
    pub(crate) batching: LiveRedis,
    /// A connection without any of this project's code.
    pub(crate) plain: MultiplexedConnection,
    url: String,
    next_minute: AtomicI64,
}

impl Server {
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        let options =
            Options::default().with_deadline(DEADLINE).with_scan_bound(SCAN_BOUND).with_since_bound(u32::MAX);
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(DEADLINE));
        let client = redis::Client::open(url)?;
        Ok(Self {
            single: LiveRedis::open_with(url, options.clone().with_micro_batch(1)).await?,
            batching: LiveRedis::open_with(url, options).await?,
            plain: client.get_multiplexed_async_connection_with_config(&config).await?,
            url: url.to_owned(),
            next_minute: AtomicI64::new(minute_of(Utc::now().timestamp())),
        })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// A minute that nothing was counted in.
    pub(crate) fn fresh_minute(&self) -> DateTime<Utc> {
        let minute = self.next_minute.fetch_add(1, Ordering::Relaxed);
        DateTime::UNIX_EPOCH + TimeDelta::minutes(minute)
    }

    /// Where the fast path keeps a tree's counters of that minute.
    pub(crate) fn key(&self, tree: &RateTree, now: DateTime<Utc>) -> String {
        let minute = minute_of(now.timestamp());
        format!("{}:{{0}}:rate:{minute}:{}", self.single.options().prefix, partition(tree))
    }

    /// Forgets all that was counted, and the server's statistics.
    pub(crate) async fn clear(&self) -> Result<()> {
        let mut plain = self.plain.clone();
        redis::cmd("FLUSHALL").query_async::<()>(&mut plain).await?;
        self.reset_statistics().await
    }

    pub(crate) async fn reset_statistics(&self) -> Result<()> {
        redis::cmd("CONFIG").arg("RESETSTAT").query_async::<()>(&mut self.plain.clone()).await?;
        Ok(())
    }

    /// Calls of a command since the last reset, and the microseconds that the server spent in them.
    pub(crate) async fn calls(&self, command: &str) -> Result<Calls> {
        let info: String =
            redis::cmd("INFO").arg("commandstats").query_async(&mut self.plain.clone()).await?;
        let prefix = format!("cmdstat_{command}:");
        let Some(line) = info.lines().find_map(|line| line.strip_prefix(&prefix)) else {
            return Ok(Calls { count: 0.0, micros: 0.0, failed: 0.0 });
        };
        let number = |name: &str| -> Result<f64> {
            let found = line.split(',').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
            found.and_then(|text| text.trim().parse().ok()).with_context(|| format!("{name} in {line}"))
        };
        Ok(Calls { count: number("calls")?, micros: number("usec")?, failed: number("failed_calls")? })
    }

    /// Its number as a process, wherever it runs.
    pub(crate) async fn process(&self) -> Result<u32> {
        let info: String = redis::cmd("INFO").arg("server").query_async(&mut self.plain.clone()).await?;
        let found = info.lines().find_map(|line| line.strip_prefix("process_id:"));
        Ok(found.context("INFO server names no process")?.trim().parse()?)
    }

    /// The server's name and version.
    pub(crate) async fn version(&self) -> Result<String> {
        let info: String = redis::cmd("INFO").arg("server").query_async(&mut self.plain.clone()).await?;
        let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        Ok(match (field("valkey_version:"), field("redis_version:")) {
            (Some(valkey), _) => format!("Valkey {valkey}"),
            (None, Some(redis)) => format!("Redis {redis}"),
            (None, None) => "unknown".to_owned(),
        })
    }

    /// How the server stores a hash, and how many fields it has.
    pub(crate) async fn encoding(&self, key: &str) -> Result<(String, usize)> {
        let mut plain = self.plain.clone();
        let encoding = redis::cmd("OBJECT").arg("ENCODING").arg(key).query_async(&mut plain).await?;
        let fields = redis::cmd("HLEN").arg(key).query_async(&mut plain).await?;
        Ok((encoding, fields))
    }
}

/// What a command cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Calls {
    pub(crate) count: f64,
    pub(crate) micros: f64,
    /// How many of the calls were answered with an error.
    pub(crate) failed: f64,
}

/// The partition of a tree with one root, its first node.
pub(crate) fn partition(tree: &RateTree) -> String {
    field(tree, 0)
}

/// A node's field in the hash of a minute.
pub(crate) fn field(tree: &RateTree, node: usize) -> String {
    let scope = &tree.nodes()[node].scope;
    format!("{}/{}", scope.kind(), scope.id())
}
