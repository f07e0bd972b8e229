//! Private PostgreSQL servers.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::os::unix::fs::{OpenOptionsExt, chown};
use std::path::Path;
use std::time::Duration;

use crate::database::Database;
use crate::docker::{Container, ContainerLaunch};
use crate::error::{DevstackError, Result};
use crate::guard::Signal;
use crate::install::{self, Source};
use crate::instance::{Instance, Place, Plan};
use crate::kept::Kept;
use crate::port::PortLease;
use crate::process::{Launch, ServerProcess, log_end};
use crate::program::Program;
use crate::service::Service;
use crate::sql;
use crate::unique::random_password;
use crate::user::{self, User};

const INITDB_WITHIN: Duration = Duration::from_secs(120);

/// What a crash of the machine may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Nothing that was committed: PostgreSQL's own defaults.
    Durable,
    /// Everything: `fsync` and `full_page_writes` are off. A crash of the *server*, such as
    /// [`PostgresServer::kill`], still costs nothing, because the kernel has the writes. For tests.
    Fast,
}

/// Options of a [`PostgresServer`]; made by [`PostgresServer::builder`].
#[derive(Debug, Clone)]
pub struct PostgresBuilder {
    durability: Durability,
    settings: Vec<(String, String)>,
    pub(crate) ready_within: Duration,
}

impl PostgresBuilder {
    /// Default: [`Durability::Durable`].
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Adds any setting of `postgresql.conf`, such as `("max_connections", "20")`. It overrides what this crate
    /// sets.
    #[must_use]
    pub fn setting(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }

    /// How long the server may take until it answers, crash recovery included. Default: 60 s.
    #[must_use]
    pub fn ready_within(mut self, within: Duration) -> Self {
        self.ready_within = within;
        self
    }

    /// Creates a data folder (UTF-8, locale C, a random password), starts the server and waits until it lets us in.
    ///
    /// # Errors
    ///
    /// [`DevstackError`]: no usable program, or `initdb` or the server ended, was too slow, or found no free port.
    pub fn start(&self) -> Result<PostgresServer> {
        self.start_on(PortLease::take)
    }

    fn start_on(&self, ports: impl FnMut() -> Result<PortLease>) -> Result<PostgresServer> {
        let password = random_password()?;
        let source = install::resolve(Service::Postgres)?;
        let (place, user) = match &source {
            Source::Program(program) => {
                let user = user::unprivileged()?;
                (Place::Process(initialized(program, user, &password)?), user)
            }
            Source::Docker => (Place::Container(Container::new()?), None),
        };
        let start = Start { source, user, password, options: self.clone() };
        let mut instance = Instance { service: Service::Postgres, place };
        let folder = instance.folder().map(Path::to_path_buf);
        let plan = |port| start.plan(folder.as_deref(), port);
        let probe = |port, _| probe(port, &start.url(port));
        let port = instance.start(ports, plan, self.ready_within, probe)?;
        let url = start.url(port.number());
        Ok(PostgresServer { instance, port, url, start })
    }

    fn settings(&self) -> Vec<String> {
        // Many test threads, each with a pool of its own.
        let mut settings = vec!["max_connections=300".to_owned()];
        if self.durability == Durability::Fast {
            let fast = ["fsync=off", "full_page_writes=off", "synchronous_commit=on"];
            settings.extend(fast.map(str::to_owned));
        }
        settings.extend(self.settings.iter().map(|(name, value)| format!("{name}={value}")));
        settings.into_iter().flat_map(|setting| ["-c".to_owned(), setting]).collect()
    }
}

/// Everything a (re)start needs besides the port.
pub(crate) struct Start {
    pub(crate) source: Source,
    pub(crate) user: Option<User>,
    pub(crate) password: String,
    pub(crate) options: PostgresBuilder,
}

impl Start {
    pub(crate) fn url(&self, port: u16) -> String {
        // Hexadecimal digits need no escaping.
        format!("postgres://postgres:{}@127.0.0.1:{port}/postgres", self.password)
    }

    pub(crate) fn plan(&self, folder: Option<&Path>, port: u16) -> Plan {
        match &self.source {
            Source::Program(program) => {
                let data = folder.unwrap_or(Path::new(".")).join("data");
                let mut args: Vec<OsString> =
                    vec!["-D".into(), data.into(), "-p".into(), port.to_string().into()];
                // No Unix socket: its path must be short, which a temporary folder's may not be.
                for setting in ["listen_addresses=127.0.0.1", "unix_socket_directories="] {
                    args.extend(["-c".into(), setting.into()]);
                }
                args.extend(self.options.settings().into_iter().map(OsString::from));
                Plan::Process(Launch {
                    program: program.path.clone(),
                    args,
                    user: self.user,
                    ..Launch::default()
                })
            }
            Source::Docker => {
                let initdb = "--encoding=UTF8 --locale=C --auth-host=scram-sha-256 --no-sync".to_owned();
                let env =
                    vec![("POSTGRES_PASSWORD", self.password.clone()), ("POSTGRES_INITDB_ARGS", initdb)];
                let mut command = vec!["postgres".to_owned()];
                command.extend(self.options.settings());
                Plan::Container(ContainerLaunch {
                    image: Service::Postgres.image(),
                    inner_port: 5432,
                    port,
                    env,
                    command,
                })
            }
        }
    }
}

/// A guarded folder in which `initdb` has made `data`.
fn initialized(program: &Program, user: Option<User>, password: &str) -> Result<ServerProcess> {
    let mut process = ServerProcess::new(user::private_folder(user)?, Signal::Quit)?;
    let password_file = process.folder().join("password");
    write_secret(&password_file, user, password)
        .map_err(DevstackError::io("write the password for initdb"))?;
    let mut args: Vec<OsString> = vec!["-D".into(), process.folder().join("data").into()];
    args.extend(["--pwfile".into(), password_file.clone().into()]);
    let fixed =
        "--username=postgres --auth=scram-sha-256 --encoding=UTF8 --locale=C --no-sync --no-instructions";
    args.extend(fixed.split(' ').map(OsString::from));
    process.launch(&Launch { program: program.sibling("initdb"), args, user, ..Launch::default() })?;

    let status = process.wait(INITDB_WITHIN);
    // The folder is private, but nobody needs the file any more.
    let _ = fs::remove_file(&password_file);
    let (service, log) = (Service::Postgres, log_end(&process.run_log()));
    match status {
        Some(status) if status.success() => Ok(process),
        Some(status) => Err(DevstackError::Exited { service, status: format!("initdb: {status}"), log }),
        None => Err(DevstackError::NotReady {
            service,
            within: INITDB_WITHIN,
            last: "initdb still runs".into(),
            log,
        }),
    }
}

pub(crate) fn write_secret(file: &Path, user: Option<User>, secret: &str) -> std::io::Result<()> {
    use std::io::Write;
    let mut open = fs::File::options().create_new(true).write(true).mode(0o600).open(file)?;
    writeln!(open, "{secret}")?;
    match user {
        Some(User { uid, gid }) => chown(file, Some(uid), Some(gid)),
        None => Ok(()),
    }
}

/// Whether our server lets us in. A stranger's would not know the random password.
pub(crate) fn probe(port: u16, url: &str) -> Result<(), String> {
    sql::speaks("127.0.0.1", port)?;
    sql::execute(url, "connect", "SELECT 1").map_err(|error| error.to_string())
}

/// A private PostgreSQL server on a port of 127.0.0.1, with a random password.
///
/// It ends, and its data with it, when this value is dropped or this process ends in whatever way. As root, it runs
/// as the user `postgres` or `nobody`.
pub struct PostgresServer {
    pub(crate) instance: Instance,
    pub(crate) port: PortLease,
    pub(crate) url: String,
    pub(crate) start: Start,
}

impl PostgresServer {
    /// Options, to be followed by [`PostgresBuilder::start`].
    pub fn builder() -> PostgresBuilder {
        PostgresBuilder {
            durability: Durability::Durable,
            settings: Vec::new(),
            ready_within: Duration::from_secs(60),
        }
    }

    /// The URL of the database `postgres` as superuser, with the password. It stays the same over restarts.
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

    /// Creates a database whose name begins with `prefix`: 1 to 24 bytes of `a-z`, `0-9` and `_`, first a letter.
    ///
    /// # Errors
    ///
    /// [`DevstackError::BadPrefix`], or [`DevstackError::Sql`] when the server refuses or does not run.
    pub fn database(&self, prefix: &str) -> Result<Database> {
        Database::create(&self.url, prefix)
    }

    /// Kills the server (`SIGKILL`), as the kernel would when memory is short. Harmless when it does not run.
    pub fn kill(&mut self) {
        self.instance.kill();
    }

    /// Stops the server (`SIGINT`, "fast"): open sessions are aborted, a checkpoint is written. Harmless when it
    /// does not run.
    ///
    /// # Errors
    ///
    /// [`DevstackError::NotStopped`] when it took more than 30 s; it has been killed then.
    pub fn stop(&mut self) -> Result<()> {
        self.instance.stop(Signal::Int)
    }

    /// Stops the server as a crash would (`SIGQUIT`, "immediate"): the next start recovers from its log. Harmless
    /// when it does not run.
    ///
    /// # Errors
    ///
    /// As [`stop`](Self::stop).
    pub fn stop_immediate(&mut self) -> Result<()> {
        self.instance.stop(Signal::Quit)
    }

    /// Starts the server again after a stop or a kill, on the same port and data.
    ///
    /// # Errors
    ///
    /// [`DevstackError::WrongState`] when it runs; else as [`PostgresBuilder::start`].
    pub fn start_again(&mut self) -> Result<()> {
        let port = self.port.number();
        let plan = self.start.plan(self.instance.folder(), port);
        self.instance.start_again(&plan, self.start.options.ready_within, |_| probe(port, &self.url))
    }

    /// Leaves the server running after the end of this process.
    ///
    /// # Errors
    ///
    /// [`DevstackError::WrongState`] when it does not run.
    pub fn keep(self) -> Result<Kept> {
        let stop = self.instance.keep(Signal::Int)?;
        Ok(Kept { service: Service::Postgres, url: self.url, stop })
    }
}

impl fmt::Debug for PostgresServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresServer")
            .field("port", &self.port())
            .field("folder", &self.folder())
            .field("options", &self.start.options)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener};

    fn fast() -> PostgresBuilder {
        PostgresServer::builder().durability(Durability::Fast)
    }

    #[test]
    fn a_port_that_a_stranger_took_in_the_meantime_is_replaced() {
        let mut stranger = None;
        let server = fast()
            .start_on(|| {
                let lease = PortLease::take()?;
                if stranger.is_none() {
                    stranger = Some(TcpListener::bind((Ipv4Addr::LOCALHOST, lease.number())).unwrap());
                }
                Ok(lease)
            })
            .unwrap();
        assert_ne!(stranger.unwrap().local_addr().unwrap().port(), server.port());
        probe(server.port(), server.url()).unwrap();
    }

    #[test]
    fn only_the_fast_kind_gives_up_the_disk_and_never_the_commit() {
        let durable = PostgresServer::builder().settings().join(" ");
        assert!(!durable.contains("fsync") && !durable.contains("synchronous_commit"), "{durable}");
        let fast = fast().setting("fsync", "on").settings().join(" ");
        assert!(fast.contains("-c synchronous_commit=on"), "{fast}");
        assert!(fast.rfind("fsync=on") > fast.rfind("fsync=off"), "the caller's setting comes last: {fast}");
    }

    #[test]
    fn a_container_gets_its_password_by_the_environment() {
        let start = Start { source: Source::Docker, user: None, password: "secret".into(), options: fast() };
        let Plan::Container(launch) = start.plan(None, 20_000) else { panic!("not a container") };
        assert_eq!(launch.env[0], ("POSTGRES_PASSWORD", "secret".to_owned()));
        assert!(launch.command.join(" ").starts_with("postgres -c max_connections=300 -c fsync=off"));
    }

    #[test]
    fn a_refused_setting_is_reported_with_the_servers_own_words() {
        let error = fast().setting("no_such_setting", "1").start().unwrap_err();
        assert!(error.to_string().contains("no_such_setting"), "{error}");
    }

    #[test]
    fn a_listener_that_says_nothing_or_something_else_is_not_postgres() {
        let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert!(sql::speaks("127.0.0.1", silent.local_addr().unwrap().port()).is_err());
        let redis = crate::RedisServer::builder().start().unwrap();
        assert!(sql::speaks("127.0.0.1", redis.port()).is_err());
    }
}
