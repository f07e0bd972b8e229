//! Private Redis (or Valkey) servers.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use crate::docker::{Container, ContainerLaunch};
use crate::error::Result;
use crate::guard::Signal;
use crate::install::{self, Source};
use crate::instance::{Instance, Place, Plan};
use crate::kept::Kept;
use crate::port::PortLease;
use crate::process::{Launch, ServerProcess};
use crate::program::Program;
use crate::resp::Connection;
use crate::service::Service;
use crate::user;

/// When an append-only file is flushed to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppendFsync {
    /// After every write: an acknowledged write survives a crash of the machine.
    Always,
    /// Once a second, which is Redis's default.
    EverySecond,
    /// When the kernel likes.
    No,
}

/// Options of a [`RedisServer`]; made by [`RedisServer::builder`].
#[derive(Clone)]
pub struct RedisBuilder {
    password: Option<String>,
    appendonly: bool,
    appendfsync: AppendFsync,
    args: Vec<(String, String)>,
    ready_within: Duration,
}

impl RedisBuilder {
    /// Requires this password (`requirepass`). Default: none.
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Whether an append-only file is written, so that data survive [`RedisServer::kill`]. Default: no.
    #[must_use]
    pub fn appendonly(mut self, appendonly: bool) -> Self {
        self.appendonly = appendonly;
        self
    }

    /// When the append-only file is flushed. Default: [`AppendFsync::EverySecond`].
    #[must_use]
    pub fn appendfsync(mut self, appendfsync: AppendFsync) -> Self {
        self.appendfsync = appendfsync;
        self
    }

    /// Adds any line of `redis.conf`, such as `("maxmemory", "8mb")`. The value is in the syntax of that file and
    /// overrides what this crate sets.
    #[must_use]
    pub fn arg(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.args.push((name.into(), value.into()));
        self
    }

    /// How long the server may take until it answers, loading its data included. Default: 30 s.
    #[must_use]
    pub fn ready_within(mut self, within: Duration) -> Self {
        self.ready_within = within;
        self
    }

    /// Starts the server and waits until it answers.
    ///
    /// # Errors
    ///
    /// [`DevstackError`](crate::DevstackError): no usable program, or the server ended, was too slow, or found no free port.
    pub fn start(&self) -> Result<RedisServer> {
        self.start_on(PortLease::take)
    }

    fn start_on(&self, ports: impl FnMut() -> Result<PortLease>) -> Result<RedisServer> {
        let source = install::resolve(Service::Redis)?;
        let place = match &source {
            Source::Program(_) => {
                Place::Process(ServerProcess::new(user::private_folder(None)?, Signal::Term)?)
            }
            Source::Docker => Place::Container(Container::new()?),
        };
        let mut instance = Instance { service: Service::Redis, place };
        let folder = instance.folder().map(Path::to_path_buf);
        let plan = |port| self.plan(&source, folder.as_deref(), port);
        let probe = |port: u16, pid| probe(&self.url(port), pid);
        let port = instance.start(ports, plan, self.ready_within, probe)?;
        let url = self.url(port.number());
        Ok(RedisServer { instance, source, port, url, options: self.clone() })
    }

    fn plan(&self, source: &Source, folder: Option<&Path>, port: u16) -> Plan {
        match source {
            Source::Program(Program { path, .. }) => {
                let folder = folder.unwrap_or(Path::new(".")).to_string_lossy();
                let stdin = self.config("127.0.0.1", port, &folder);
                Plan::Process(Launch { program: path.clone(), args: vec!["-".into()], stdin, user: None })
            }
            Source::Docker => {
                // Reachable from outside the container, which Docker publishes on loopback only.
                let config = format!("protected-mode no\n{}", self.config("0.0.0.0", 6379, "/data"));
                // `exec`, so that the server, not a shell, gets Docker's signals.
                let script = "exec redis-server - <<END\n$DEVSTACK_REDIS_CONF\nEND\n";
                Plan::Container(ContainerLaunch {
                    image: Service::Redis.image(),
                    inner_port: 6379,
                    port,
                    env: vec![("DEVSTACK_REDIS_CONF", config)],
                    command: vec!["sh".into(), "-c".into(), script.into()],
                })
            }
        }
    }

    /// The configuration, which the server reads from its standard input: no file, and no password in `ps`.
    fn config(&self, bind: &str, port: u16, folder: &str) -> String {
        let appendonly = if self.appendonly { "yes" } else { "no" };
        let appendfsync = match self.appendfsync {
            AppendFsync::Always => "always",
            AppendFsync::EverySecond => "everysec",
            AppendFsync::No => "no",
        };
        let mut lines = vec![
            format!("bind {bind}"),
            format!("port {port}"),
            format!("dir {}", quoted(folder)),
            "save \"\"".to_owned(),
            format!("appendonly {appendonly}"),
            format!("appendfsync {appendfsync}"),
            "maxmemory-policy noeviction".to_owned(),
        ];
        lines.extend(self.password.iter().map(|password| format!("requirepass {}", quoted(password))));
        for (name, value) in &self.args {
            let value = if value.is_empty() { "\"\"" } else { value };
            lines.push(format!("{name} {value}"));
        }
        lines.iter().map(|line| format!("{line}\n")).collect()
    }

    fn url(&self, port: u16) -> String {
        let user = self
            .password
            .as_ref()
            .map_or_else(String::new, |password| format!(":{}@", percent_encoded(password)));
        format!("redis://{user}127.0.0.1:{port}/")
    }
}

impl fmt::Debug for RedisBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values of extra lines may be passwords too (`user`, `masterauth`).
        let args: Vec<&str> = self.args.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("RedisBuilder")
            .field("password", &self.password.as_ref().map(|_| "***"))
            .field("appendonly", &self.appendonly)
            .field("appendfsync", &self.appendfsync)
            .field("args", &args)
            .finish_non_exhaustive()
    }
}

/// A private Redis or Valkey server on a port of 127.0.0.1, with no eviction and no snapshots.
///
/// It ends, and its data with it, when this value is dropped or this process ends in whatever way.
pub struct RedisServer {
    instance: Instance,
    source: Source,
    port: PortLease,
    url: String,
    options: RedisBuilder,
}

impl RedisServer {
    /// Options, to be followed by [`RedisBuilder::start`].
    pub fn builder() -> RedisBuilder {
        RedisBuilder {
            password: None,
            appendonly: false,
            appendfsync: AppendFsync::EverySecond,
            args: Vec::new(),
            ready_within: Duration::from_secs(30),
        }
    }

    /// The URL, with the password if there is one. It stays the same over restarts.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The TCP port on 127.0.0.1. It stays the same over restarts.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// The folder of the data and the log; `None` in Docker.
    pub fn folder(&self) -> Option<&Path> {
        self.instance.folder()
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
        let plan = self.options.plan(&self.source, self.instance.folder(), self.port.number());
        self.instance.start_again(&plan, self.options.ready_within, |pid| probe(&self.url, pid))
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

/// Whether the server at `url` answers and, when its process id is known, is that process and not a stranger that
/// took the port.
fn probe(url: &str, pid: Option<u32>) -> Result<(), String> {
    let mut connection = Connection::open(url)?;
    connection.call(&[b"PING"])?;
    let Some(pid) = pid else { return Ok(()) };
    match connection.info("process_id")? {
        Some(other) if other != pid.to_string() => {
            Err(format!("the port belongs to process {other}, not {pid}"))
        }
        _ => Ok(()),
    }
}

/// For a URL. Everything but letters and digits is escaped, since clients disagree about the rest.
fn percent_encoded(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}

/// A value in the syntax of `redis.conf`.
fn quoted(value: &str) -> String {
    let mut text = String::from("\"");
    for byte in value.bytes() {
        match byte {
            b'"' | b'\\' => text.extend(['\\', char::from(byte)]),
            b' '..=b'~' => text.push(char::from(byte)),
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::DevstackError;
    use std::net::{Ipv4Addr, TcpListener};

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
        probe(server.url(), None).unwrap();
    }

    #[test]
    fn another_redis_on_the_port_is_not_taken_for_ours() {
        let server = RedisServer::builder().start().unwrap();
        assert!(probe(server.url(), Some(1)).unwrap_err().contains("not 1"));
    }

    #[test]
    fn values_are_quoted_for_the_configuration() {
        assert_eq!(quoted("a \"b\" \\ é\n"), r#""a \"b\" \\ \xc3\xa9\x0a""#);
    }

    #[test]
    fn the_url_escapes_the_password() {
        let url = RedisServer::builder().password("a/b:c@d e%").url(20_000);
        assert_eq!(url, "redis://:a%2Fb%3Ac%40d%20e%25@127.0.0.1:20000/");
        assert_eq!(RedisServer::builder().url(20_000), "redis://127.0.0.1:20000/");
    }

    #[test]
    fn a_container_gets_the_same_configuration_by_the_environment() {
        let builder = RedisServer::builder().password("secret").appendonly(true);
        let Plan::Container(launch) = builder.plan(&Source::Docker, None, 20_000) else {
            panic!("not a container")
        };
        assert!(!launch.command.join(" ").contains("secret"));
        let (_, config) = &launch.env[0];
        for line in ["bind 0.0.0.0", "port 6379", "dir \"/data\"", "appendonly yes", "requirepass \"secret\""]
        {
            assert!(config.lines().any(|l| l == line), "{line} is not in {config}");
        }
    }

    #[test]
    fn debug_output_holds_no_password() {
        let builder = RedisServer::builder().password("hidden1").arg("masterauth", "hidden2");
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
