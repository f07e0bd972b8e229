//! Where Redis is and how it is used.

use std::fmt;
use std::time::Duration;

use redis::{Client, IntoConnectionInfo};
use secrecy::{ExposeSecret, SecretString};
use spend_queue::ShardCount;

use crate::KeyPrefix;
use crate::error::{OpenError, Step};

/// A Redis URL, kept so that its password reaches no log, error or `Debug`.
///
/// `redis://[user:password@]host[:port][/db]`, or `redis+unix:///path`.
#[derive(Clone)]
pub struct RedisUrl(SecretString);

impl RedisUrl {
    /// Wraps a URL without looking at it; [`crate::LiveRedis::open`] parses it.
    pub fn new(url: impl Into<String>) -> Self {
        Self(SecretString::from(url.into()))
    }

    pub(crate) fn client(&self) -> Result<Client, OpenError> {
        let failed = |error: redis::RedisError| OpenError::new(Step::Parse, parse_reason(&error));
        // Two steps, so that a malformed URL is told from one that the client cannot serve.
        let info = self.0.expose_secret().into_connection_info().map_err(failed)?;
        Client::open(info).map_err(failed)
    }
}

/// The client's words for a malformed URL never repeat the URL; its category is all that is shown, to be sure.
fn parse_reason(error: &redis::RedisError) -> String {
    format!("{}; expected redis://[user:password@]host[:port][/db]", error.category())
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RedisUrl(secret)")
    }
}

impl From<&str> for RedisUrl {
    fn from(url: &str) -> Self {
        Self::new(url)
    }
}

impl From<String> for RedisUrl {
    fn from(url: String) -> Self {
        Self::new(url)
    }
}

/// How a [`crate::LiveRedis`] uses its server. All hosts of one deployment must agree on prefix and shards.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// What every key starts with. Default `tollgate`. Two deployments on one server need two prefixes.
    pub prefix: KeyPrefix,
    /// Over how many shards the partitions are spread. Default 1; more only helps a Redis Cluster. A queue
    /// remembers its count and refuses another.
    pub shards: ShardCount,
    /// The longest that one call may take, connecting included. Default 2 s. A call that ran out of time may
    /// have run: every script here is safe to repeat, or admits less.
    pub deadline: Duration,
    /// Connections for wide reads (peeks), apart from the multiplexed one that admissions and enqueues share,
    /// so that a large reply never stands before an admission. Default 4.
    pub wide_connections: usize,
    /// Whose clock says which minute it is. Default [`WindowClock::Local`].
    pub window_clock: WindowClock,
    /// The most admissions of one partition that go together in one call while others wait (design D12). Default 64;
    /// 1 sends each by itself. Nobody ever waits for a batch to fill.
    pub micro_batch: usize,
}

/// Whose clock says which minute a request is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WindowClock {
    /// The `now` that the caller gives: tests and simulators own time. Gateways whose clocks differ count one moment in
    /// two minutes.
    #[default]
    Local,
    /// The Redis server's: all gateways share one window, whatever their clocks. `now` then only says which keys to
    /// name, and a gateway whose clock is off by minutes learns by how much.
    Redis,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            prefix: KeyPrefix::default(),
            shards: ShardCount::ONE,
            deadline: Duration::from_secs(2),
            wide_connections: 4,
            window_clock: WindowClock::Local,
            micro_batch: 64,
        }
    }
}

impl Options {
    /// The same with another key prefix.
    #[must_use]
    pub fn with_prefix(self, prefix: KeyPrefix) -> Self {
        Self { prefix, ..self }
    }

    /// The same with another shard count.
    #[must_use]
    pub fn with_shards(self, shards: ShardCount) -> Self {
        Self { shards, ..self }
    }

    /// The same with another clock for the minutes.
    #[must_use]
    pub fn with_window_clock(self, window_clock: WindowClock) -> Self {
        Self { window_clock, ..self }
    }

    /// The same with another bound for micro-batches.
    #[must_use]
    pub fn with_micro_batch(self, micro_batch: usize) -> Self {
        Self { micro_batch, ..self }
    }

    /// The same with another deadline for each call.
    #[must_use]
    pub fn with_deadline(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }
}
