//! Options of servers under Sentinels, and how such a group starts.

use std::fmt;
use std::time::Duration;

use crate::error::{DevstackError, Result};
use crate::group::{in_range, in_sync, settle};
use crate::install::{self, Source};
use crate::redis::RedisServer;
use crate::redis_builder::RedisBuilder;
use crate::redis_config::{ConfigBy, quoted};
use crate::sentinel::{NAME, RedisSentinel, WHAT, hasten};
use crate::service::Service;

const FORMED_WITHIN: Duration = Duration::from_secs(60);

/// Options of a [`RedisSentinel`] group; made by [`RedisSentinel::builder`].
#[derive(Clone)]
pub struct RedisSentinelBuilder {
    replicas: usize,
    sentinels: usize,
    down_after: Duration,
    failover_timeout: Duration,
    server: RedisBuilder,
    sentinel_password: Option<String>,
}

impl RedisSentinelBuilder {
    pub(crate) fn new() -> Self {
        Self {
            replicas: 1,
            sentinels: 3,
            down_after: Duration::from_millis(500),
            failover_timeout: Duration::from_secs(3),
            server: RedisServer::builder(),
            sentinel_password: None,
        }
    }

    /// The number of replicas, 0 to 5. Default: 1.
    #[must_use]
    pub fn replicas(mut self, replicas: usize) -> Self {
        self.replicas = replicas;
        self
    }

    /// The number of Sentinels, 1 to 7; more than half of them must agree on a fail-over. Default: 3.
    #[must_use]
    pub fn sentinels(mut self, sentinels: usize) -> Self {
        self.sentinels = sentinels;
        self
    }

    /// After how long a silent primary is suspected (`down-after-milliseconds`). Default: 500 ms.
    #[must_use]
    pub fn down_after(mut self, after: Duration) -> Self {
        self.down_after = after;
        self
    }

    /// How long a fail-over may take (`failover-timeout`); one that failed is tried again after twice as long.
    /// Default: 3 s.
    #[must_use]
    pub fn failover_timeout(mut self, timeout: Duration) -> Self {
        self.failover_timeout = timeout;
        self
    }

    /// Options of the primary and the replicas: password, users, TLS (which the Sentinels then use too), files,
    /// further lines.
    #[must_use]
    pub fn servers(mut self, options: RedisBuilder) -> Self {
        self.server = options;
        self
    }

    /// Requires this password of the Sentinels' own clients. Default: none, whatever the servers require.
    #[must_use]
    pub fn sentinel_password(mut self, password: impl Into<String>) -> Self {
        self.sentinel_password = Some(password.into());
        self
    }

    /// Starts the primary, its replicas and the Sentinels, and waits until every Sentinel knows all of them and
    /// every replica is in sync.
    ///
    /// # Errors
    ///
    /// [`DevstackError::OutOfRange`] for the numbers, [`DevstackError::NeedsProgram`] if Redis is to be had in
    /// Docker only, [`DevstackError::NotSettled`] if the Sentinels do not find everything in a minute; else as
    /// [`RedisBuilder::start`].
    pub fn start(&self) -> Result<RedisSentinel> {
        in_range("the number of replicas", self.replicas, 0, 5)?;
        in_range("the number of Sentinels", self.sentinels, 1, 7)?;
        // In containers, the servers would tell the Sentinels addresses that do not lead to them.
        if let Source::Docker = install::resolve(Service::Redis)? {
            return Err(DevstackError::NeedsProgram { service: Service::Redis, what: "Redis Sentinel" });
        }
        let primary = self.server_options(None).start()?;
        let port = primary.port();
        let mut servers = vec![primary];
        for _ in 0..self.replicas {
            servers.push(self.server_options(Some(port)).start()?);
        }
        // The Sentinels ask the primary for its replicas at once, and again only after ten seconds.
        settle(WHAT, FORMED_WITHIN, servers.iter(), || {
            servers.iter().skip(1).try_for_each(|replica| in_sync(replica, port))
        })?;
        let sentinels = (0..self.sentinels).map(|_| {
            let sentinel = self.sentinel_options(port).start()?;
            hasten(&sentinel);
            Ok(sentinel)
        });
        let group = RedisSentinel { sentinels: sentinels.collect::<Result<_>>()?, servers };
        group.wait_ok(FORMED_WITHIN)?;
        Ok(group)
    }

    fn server_options(&self, primary: Option<u16>) -> RedisBuilder {
        // Redis waits five seconds for further replicas before it sends its data.
        let mut lines = vec![("repl-diskless-sync-delay", "0".to_owned())];
        lines.extend(primary.map(|port| ("replicaof", format!("127.0.0.1 {port}"))));
        lines.extend(self.server.password.iter().map(|password| ("masterauth", quoted(password))));
        lines.extend(self.server.tls.iter().map(|_| ("tls-replication", "yes".to_owned())));
        self.server.clone().preset(&lines).config_by(ConfigBy::File)
    }

    fn sentinel_options(&self, primary: u16) -> RedisBuilder {
        let quorum = self.sentinels / 2 + 1;
        let mut lines = vec![format!("monitor {NAME} 127.0.0.1 {primary} {quorum}")];
        lines.push(format!("down-after-milliseconds {NAME} {}", self.down_after.as_millis()));
        lines.push(format!("failover-timeout {NAME} {}", self.failover_timeout.as_millis()));
        lines.extend(self.server.password.iter().map(|p| format!("auth-pass {NAME} {}", quoted(p))));
        let mut options = RedisServer::builder().config_by(ConfigBy::SentinelFile);
        options.password.clone_from(&self.sentinel_password);
        if let Some(files) = &self.server.tls {
            options = options.tls(files.clone()).arg("tls-replication", "yes");
        }
        lines.into_iter().fold(options, |options, line| options.arg("sentinel", line))
    }
}

impl fmt::Debug for RedisSentinelBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisSentinelBuilder")
            .field("replicas", &self.replicas)
            .field("sentinels", &self.sentinels)
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}
