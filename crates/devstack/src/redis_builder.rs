//! Options of private Redis (or Valkey) servers.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use crate::docker::Container;
use crate::error::{DevstackError, Result};
use crate::guard::Signal;
use crate::install::{self, Source};
use crate::instance::{Instance, Place};
use crate::port::PortLease;
use crate::process::ServerProcess;
use crate::redis::RedisServer;
use crate::redis_config::{ConfigBy, probe};
use crate::service::Service;
use crate::tls::{TlsAuthClients, TlsFiles};
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
    pub(crate) password: Option<String>,
    pub(crate) appendonly: bool,
    pub(crate) appendfsync: AppendFsync,
    pub(crate) users: Vec<String>,
    pub(crate) tls: Option<TlsFiles>,
    pub(crate) tls_auth_clients: TlsAuthClients,
    pub(crate) args: Vec<(String, String)>,
    pub(crate) config_by: ConfigBy,
    pub(crate) ready_within: Duration,
}

impl RedisBuilder {
    pub(crate) fn new() -> Self {
        Self {
            password: None,
            appendonly: false,
            appendfsync: AppendFsync::EverySecond,
            users: Vec::new(),
            tls: None,
            tls_auth_clients: TlsAuthClients::Yes,
            args: Vec::new(),
            config_by: ConfigBy::Stdin,
            ready_within: Duration::from_secs(30),
        }
    }

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

    /// Adds a user, in the syntax of `ACL SETUSER`: `"gateway on >secret ~tallyweir:* +@read"`. A password with blanks
    /// or quotes needs the quotes of `redis.conf` around its word.
    ///
    /// The user `default` must stay able to log in by [`password`](Self::password) and to call `PING` and `INFO`,
    /// because this crate finds out that way whether the server answers. URLs for others:
    /// [`RedisServer::url_as`].
    #[must_use]
    pub fn acl_user(mut self, user: impl Into<String>) -> Self {
        self.users.push(user.into());
        self
    }

    /// Serves TLS only, with these certificates; [`RedisServer::url`] is a `rediss://` one then. Default: no TLS.
    ///
    /// This crate itself uses a Unix socket in the server's folder ([`RedisServer::socket`]), which needs no
    /// certificate. The path of the machine's temporary folder must leave room for that: a socket's may have about
    /// 100 bytes.
    #[must_use]
    pub fn tls(mut self, files: TlsFiles) -> Self {
        self.tls = Some(files);
        self
    }

    /// Whether clients must show a certificate of the same authority. Default: [`TlsAuthClients::Yes`], as Redis's.
    #[must_use]
    pub fn tls_auth_clients(mut self, clients: TlsAuthClients) -> Self {
        self.tls_auth_clients = clients;
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

    /// Lines that a group of servers needs; those of [`arg`](Self::arg) override them.
    pub(crate) fn preset(mut self, lines: &[(&str, String)]) -> Self {
        let lines = lines.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        self.args.splice(0..0, lines);
        self
    }

    pub(crate) fn config_by(mut self, config_by: ConfigBy) -> Self {
        self.config_by = config_by;
        self
    }

    /// Starts the server and waits until it answers.
    ///
    /// # Errors
    ///
    /// [`DevstackError`]: no usable program (Docker cannot serve TLS here), or the server ended, was too slow, or
    /// found no free port.
    pub fn start(&self) -> Result<RedisServer> {
        self.start_on(PortLease::take)
    }

    pub(crate) fn start_on(&self, ports: impl FnMut() -> Result<PortLease>) -> Result<RedisServer> {
        let source = install::resolve(Service::Redis)?;
        let place = match &source {
            Source::Program(_) => {
                Place::Process(ServerProcess::new(user::private_folder(None)?, Signal::Term)?)
            }
            Source::Docker if self.tls.is_some() => {
                return Err(DevstackError::NeedsProgram { service: Service::Redis, what: "TLS" });
            }
            Source::Docker => Place::Container(Container::new()?),
        };
        let mut instance = Instance { service: Service::Redis, place };
        let folder = instance.folder().map(Path::to_path_buf);
        let plan = |port| self.plan(&source, folder.as_deref(), port);
        let probe = |port: u16, pid| probe(self.connect(folder.as_deref(), port), pid);
        let port = instance.start(ports, plan, self.ready_within, probe)?;
        let url = self.url(port.number());
        Ok(RedisServer { instance, source, port, url, options: self.clone() })
    }
}

impl fmt::Debug for RedisBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values of extra lines may be passwords too (`masterauth`).
        let args: Vec<&str> = self.args.iter().map(|(name, _)| name.as_str()).collect();
        let users: Vec<&str> = self.users.iter().filter_map(|user| user.split(' ').next()).collect();
        f.debug_struct("RedisBuilder")
            .field("password", &self.password.as_ref().map(|_| "***"))
            .field("appendonly", &self.appendonly)
            .field("appendfsync", &self.appendfsync)
            .field("users", &users)
            .field("tls", &self.tls)
            .field("args", &args)
            .finish_non_exhaustive()
    }
}
