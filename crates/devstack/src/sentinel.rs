//! Private Redis servers under Sentinels.

use std::fmt;
use std::time::Duration;

use crate::cluster::call;
use crate::error::{DevstackError, Result};
use crate::group::settle;
use crate::redis::RedisServer;
use crate::sentinel_builder::RedisSentinelBuilder;
use crate::sentinel_view::{check, primary_port};

/// What errors call it.
pub(crate) const WHAT: &str = "the Sentinel group";

/// The name by which the Sentinels know the primary; the one in Redis's own examples.
pub(crate) const NAME: &str = "mymaster";

/// Sentinel's clocks, in milliseconds: told more often, the same things happen sooner. The last one keeps a Sentinel
/// at work on a busy machine: it would else rest for half a minute whenever it was held up for two seconds.
const HASTE: [&str; 10] = [
    "SENTINEL",
    "DEBUG",
    "INFO-PERIOD",
    "500",
    "PUBLISH-PERIOD",
    "200",
    "PING-PERIOD",
    "200",
    "TILT-TRIGGER",
    "60000",
];

/// One primary, its replicas and the Sentinels that watch them, all on 127.0.0.1.
///
/// Everyone is a [`RedisServer`] and ends as surely. Servers and Sentinels write what they learn into their
/// configuration, as in production: a primary that is killed and started again believes that it is one until a
/// Sentinel tells it otherwise, about a second later.
pub struct RedisSentinel {
    // Dropped first, so that they see no failure and start no fail-over.
    pub(crate) sentinels: Vec<RedisServer>,
    pub(crate) servers: Vec<RedisServer>,
}

impl RedisSentinel {
    /// Options, to be followed by [`RedisSentinelBuilder::start`].
    pub fn builder() -> RedisSentinelBuilder {
        RedisSentinelBuilder::new()
    }

    /// The URLs of the Sentinels, with their password if there is one.
    pub fn sentinel_urls(&self) -> Vec<String> {
        self.sentinels.iter().map(|sentinel| sentinel.url().to_owned()).collect()
    }

    /// The name to ask the Sentinels for.
    pub fn master_name(&self) -> &'static str {
        NAME
    }

    /// The primary of the beginning, then its replicas; they keep their index whatever their role.
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// The Sentinels.
    pub fn sentinels(&self) -> &[RedisServer] {
        &self.sentinels
    }

    /// The primary's port, as the first Sentinel that is up tells it.
    ///
    /// # Errors
    ///
    /// [`DevstackError::Redis`] when none is up or it knows no primary.
    pub fn primary_port(&self) -> Result<u16> {
        let sentinel = self.sentinels.iter().find(|sentinel| sentinel.is_up());
        sentinel
            .ok_or_else(|| "none is up".to_owned())
            .and_then(primary_port)
            .map_err(DevstackError::redis("ask a Sentinel for the primary"))
    }

    /// Kills (`SIGKILL`) the server that the Sentinels call the primary and returns its index.
    /// [`wait_ok`](Self::wait_ok) then waits for the fail-over.
    ///
    /// # Errors
    ///
    /// As [`primary_port`](Self::primary_port).
    pub fn kill_primary(&mut self) -> Result<usize> {
        let port = self.primary_port()?;
        let primary = self.servers.iter_mut().enumerate().find(|(_, server)| server.port() == port);
        let (index, server) = primary
            .ok_or_else(|| format!("port {port} is none of its servers"))
            .map_err(DevstackError::redis("find the primary"))?;
        server.kill();
        Ok(index)
    }

    /// Kills a server (`SIGKILL`). Harmless when it does not run.
    ///
    /// # Errors
    ///
    /// [`DevstackError::OutOfRange`].
    pub fn kill(&mut self, index: usize) -> Result<()> {
        at(&mut self.servers, "the server's index", index).map(RedisServer::kill)
    }

    /// Starts a server again, on the same port and data, in the role that it had.
    ///
    /// # Errors
    ///
    /// [`DevstackError::OutOfRange`]; else as [`RedisServer::start_again`].
    pub fn start_again(&mut self, index: usize) -> Result<()> {
        at(&mut self.servers, "the server's index", index)?.start_again()
    }

    /// Kills a Sentinel (`SIGKILL`). Harmless when it does not run.
    ///
    /// # Errors
    ///
    /// [`DevstackError::OutOfRange`].
    pub fn kill_sentinel(&mut self, index: usize) -> Result<()> {
        at(&mut self.sentinels, "the Sentinel's index", index).map(RedisServer::kill)
    }

    /// Starts a Sentinel again.
    ///
    /// # Errors
    ///
    /// [`DevstackError::OutOfRange`]; else as [`RedisServer::start_again`].
    pub fn start_sentinel_again(&mut self, index: usize) -> Result<()> {
        let sentinel = at(&mut self.sentinels, "the Sentinel's index", index)?;
        sentinel.start_again()?;
        hasten(sentinel);
        Ok(())
    }

    /// Waits until all Sentinels that are up name the same primary, which is up and knows its role, and every other
    /// server that is up is its replica, in sync, and known to them. After a kill this is the end of the fail-over,
    /// not the moment before it.
    ///
    /// # Errors
    ///
    /// [`DevstackError::NotSettled`], with what was still wrong.
    pub fn wait_ok(&self, within: Duration) -> Result<()> {
        settle(WHAT, within, self.servers.iter().chain(&self.sentinels), || check(self))
    }
}

impl fmt::Debug for RedisSentinel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisSentinel")
            .field("servers", &self.servers)
            .field("sentinels", &self.sentinels)
            .finish()
    }
}

fn at<'a>(servers: &'a mut [RedisServer], what: &'static str, index: usize) -> Result<&'a mut RedisServer> {
    let last = servers.len().saturating_sub(1);
    servers.get_mut(index).ok_or(DevstackError::OutOfRange { what, value: index, first: 0, last })
}

pub(crate) fn hasten(sentinel: &RedisServer) {
    // A version without this command is only slower.
    let _ = call(sentinel, &HASTE);
}
