//! Private Redis (or Valkey) servers.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::guard::Signal;
use crate::install::Source;
use crate::instance::{Instance, Plan};
use crate::kept::Kept;
use crate::port::PortLease;
use crate::process::log_end;
use crate::redis_builder::RedisBuilder;
use crate::redis_config::{SOCKET, probe};
use crate::resp::Connection;
use crate::service::Service;

/// A private Redis or Valkey server on a port of 127.0.0.1, with no eviction and no snapshots.
///
/// It ends, and its data with it, when this value is dropped or this process ends in whatever way.
pub struct RedisServer {
    pub(crate) instance: Instance,
    pub(crate) source: Source,
    pub(crate) port: PortLease,
    pub(crate) url: String,
    pub(crate) options: RedisBuilder,
}

impl RedisServer {
    /// Options, to be followed by [`RedisBuilder::start`].
    pub fn builder() -> RedisBuilder {
        RedisBuilder::new()
    }

    /// The URL, with the password if there is one. It stays the same over restarts.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The URL for a user of [`RedisBuilder::acl_user`], with the password that is given here.
    pub fn url_as(&self, user: &str, password: &str) -> String {
        self.options.url_as(user, password, self.port())
    }

    /// The TCP port on 127.0.0.1. It stays the same over restarts.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// The folder of the data and the log; `None` in Docker.
    pub fn folder(&self) -> Option<&Path> {
        self.instance.folder()
    }

    /// The Unix socket for administration without a certificate; `None` without TLS.
    pub fn socket(&self) -> Option<PathBuf> {
        self.options.tls.as_ref()?;
        self.folder().map(|folder| folder.join(SOCKET))
    }

    /// Kills the server (`SIGKILL`), as a crash would. Harmless when it does not run.
    pub fn kill(&mut self) {
        self.instance.kill();
    }

    /// Stops the server (`SIGTERM`): it flushes its append-only file and exits. Harmless when it does not run.
    ///
    /// # Errors
    ///
    /// [`DevstackError::NotStopped`](crate::DevstackError::NotStopped) when it took more than 30 s; it has been killed then.
    pub fn stop(&mut self) -> Result<()> {
        self.instance.stop(Signal::Term)
    }

    /// Starts the server again after [`kill`](Self::kill) or [`stop`](Self::stop), on the same port and data.
    ///
    /// # Errors
    ///
    /// [`DevstackError::WrongState`](crate::DevstackError::WrongState) when it runs; else as [`RedisBuilder::start`].
    pub fn start_again(&mut self) -> Result<()> {
        let mut plan = self.options.plan(&self.source, self.instance.folder(), self.port.number());
        if let Plan::Process(launch) = &mut plan {
            // The file holds by now what the server has learned.
            launch.files.clear();
        }
        let folder = self.instance.folder().map(Path::to_path_buf);
        let connect = || self.options.connect(folder.as_deref(), self.port.number());
        self.instance.start_again(&plan, self.options.ready_within, |pid| probe(connect(), pid))
    }

    /// Our own connection.
    pub(crate) fn connect(&self) -> Result<Connection, String> {
        self.options.connect(self.folder(), self.port())
    }

    /// Whether it was started and not stopped or killed since. One that crashed counts as up, so that the failure
    /// to reach it is noticed.
    pub(crate) fn is_up(&self) -> bool {
        self.instance.is_up()
    }

    pub(crate) fn log_end(&self) -> String {
        log_end(&self.instance.run_log())
    }

    /// Leaves the server running after the end of this process.
    ///
    /// # Errors
    ///
    /// [`DevstackError::WrongState`](crate::DevstackError::WrongState) when it does not run.
    pub fn keep(self) -> Result<Kept> {
        let stop = self.instance.keep(Signal::Term)?;
        Ok(Kept { service: Service::Redis, url: self.url, stop })
    }
}

impl fmt::Debug for RedisServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisServer")
            .field("port", &self.port())
            .field("folder", &self.folder())
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::DevstackError;
    use std::net::{Ipv4Addr, TcpListener};
    use std::time::Duration;

    #[test]
    fn a_port_that_a_stranger_took_in_the_meantime_is_replaced() {
        let mut strangers = Vec::new();
        let server = RedisServer::builder()
            .start_on(|| {
                let lease = PortLease::take()?;
                if strangers.len() < 2 {
                    strangers.push(TcpListener::bind((Ipv4Addr::LOCALHOST, lease.number())).unwrap());
                }
                Ok(lease)
            })
            .unwrap();
        assert_eq!(strangers.len(), 2);
        assert!(strangers.iter().all(|stranger| stranger.local_addr().unwrap().port() != server.port()));
        probe(server.connect(), None).unwrap();
    }

    #[test]
    fn another_redis_on_the_port_is_not_taken_for_ours() {
        let server = RedisServer::builder().start().unwrap();
        assert!(probe(server.connect(), Some(1)).unwrap_err().contains("not 1"));
    }

    #[test]
    fn debug_output_holds_no_password() {
        let builder =
            RedisServer::builder().password("hidden1").arg("masterauth", "hidden2").acl_user("a on >hidden3");
        let server = builder.start().unwrap();
        let text = format!("{builder:?} {server:?} {:?}", server.url().len());
        assert!(!text.contains("hidden"), "{text}");
        assert!(server.url().contains("hidden1"));
    }

    #[test]
    fn a_refused_option_is_reported_with_the_servers_own_words() {
        let error = RedisServer::builder().arg("no-such-option", "1").start().unwrap_err();
        assert!(matches!(error, DevstackError::Exited { .. }));
        assert!(error.to_string().contains("no-such-option"), "{error}");
    }

    #[test]
    fn a_server_that_cannot_be_spoken_to_in_time_is_given_up_with_the_reason() {
        let within = Duration::from_millis(100);
        let error =
            RedisServer::builder().arg("user", "default off").ready_within(within).start().unwrap_err();
        assert!(error.is_transient());
        assert!(error.to_string().contains("NOAUTH"), "{error}");
    }
}
