//! One server a process, started at first use, for tests that need nothing special.

use std::fmt;
use std::sync::{Arc, OnceLock};

use url::Url;

use crate::database::{Database, KEEP};
use crate::error::{DevstackError, Result};
use crate::postgres::{Durability, PostgresServer};
use crate::redis::RedisServer;
use crate::resp::Connection;
use crate::service::{Service, Version};
use crate::sql;
use crate::unique::unique_suffix;

const REDIS_URL: &str = "TALLYWEIR_REDIS_URL";
const DATABASE_URL: &str = "TALLYWEIR_DATABASE_URL";

/// A server that the environment names or that this process started.
struct Shared<S> {
    url: String,
    /// Held for the life of the process: a `static` is never dropped, the server's guard ends it.
    server: Option<S>,
}

type SharedCell<S> = OnceLock<Result<Shared<S>, Arc<DevstackError>>>;

static REDIS: SharedCell<RedisServer> = OnceLock::new();
static POSTGRES: SharedCell<PostgresServer> = OnceLock::new();

fn share<S>(
    cell: &'static SharedCell<S>,
    make: impl FnOnce() -> Result<Shared<S>>,
) -> Result<&'static Shared<S>> {
    let shared = cell.get_or_init(|| make().map_err(Arc::new));
    shared.as_ref().map_err(|error| DevstackError::Shared(Arc::clone(error)))
}

/// The Redis of this process: the one at `TALLYWEIR_REDIS_URL`, else a private one, started by the first call.
///
/// With `TALLYWEIR_KEEP` set, the private one is left running and its URL printed.
///
/// # Errors
///
/// [`DevstackError::Shared`], the same at every call: the given server does not answer or is too old, or a private
/// one cannot be started.
pub fn redis() -> Result<RedisHandle> {
    let make = || match given(REDIS_URL, check_redis)? {
        Some(url) => Ok(Shared { url, server: None }),
        None => {
            let server = RedisServer::builder().start()?;
            if std::env::var_os(KEEP).is_some() {
                let kept = server.keep()?;
                eprintln!("devstack: {kept}");
                return Ok(Shared { url: kept.url, server: None });
            }
            Ok(Shared { url: server.url().to_owned(), server: Some(server) })
        }
    };
    share(&REDIS, make).map(|shared| RedisHandle { shared })
}

/// The PostgreSQL of this process: the one at `TALLYWEIR_DATABASE_URL` (whose user must be allowed to create
/// databases), else a private one ([`Durability::Fast`]), started by the first call.
///
/// With `TALLYWEIR_KEEP` set, the private one is left running and its URL printed.
///
/// # Errors
///
/// As [`redis`].
pub fn postgres() -> Result<PostgresHandle> {
    let make = || match given(DATABASE_URL, check_postgres)? {
        Some(url) => Ok(Shared { url, server: None }),
        None => {
            let server = PostgresServer::builder().durability(Durability::Fast).start()?;
            if std::env::var_os(KEEP).is_some() {
                let kept = server.keep()?;
                eprintln!("devstack: {kept}");
                return Ok(Shared { url: kept.url, server: None });
            }
            Ok(Shared { url: server.url().to_owned(), server: Some(server) })
        }
    };
    share(&POSTGRES, make).map(|shared| PostgresHandle { shared })
}

fn given(
    variable: &'static str,
    check: impl FnOnce(&str) -> std::result::Result<(), String>,
) -> Result<Option<String>> {
    let Some(value) = std::env::var_os(variable).filter(|value| !value.is_empty()) else { return Ok(None) };
    let bad = |reason| DevstackError::BadVariable { variable, reason };
    let url = value.into_string().map_err(|_| bad("not UTF-8".to_owned()))?;
    check(&url).map_err(bad)?;
    Ok(Some(url))
}

fn check_redis(url: &str) -> std::result::Result<(), String> {
    let mut connection = Connection::open(url)?;
    // Valkey calls the version of Redis it is compatible with by Redis's name, 7.2 at the least.
    let version = connection.info("server", "redis_version")?;
    at_least(Service::Redis, version.as_deref().and_then(Version::parse))
}

fn check_postgres(url: &str) -> std::result::Result<(), String> {
    let parsed = Url::parse(url).map_err(|e| format!("not a URL: {e}"))?;
    // Without a host in this place the URL names a Unix socket.
    if let Some(host) = parsed.host_str().filter(|host| !host.is_empty() && !host.starts_with('%')) {
        sql::speaks(host.trim_matches(['[', ']']), parsed.port().unwrap_or(5432))?;
    }
    let version =
        sql::text(url, "ask for its version", "SHOW server_version").map_err(|error| error.to_string())?;
    at_least(Service::Postgres, Version::parse(&version))
}

fn at_least(service: Service, version: Option<Version>) -> std::result::Result<(), String> {
    let minimum = service.minimum();
    match version {
        Some(version) if version >= minimum => Ok(()),
        Some(version) => {
            Err(format!("the server is version {version}, but {service} {minimum} or newer is needed"))
        }
        None => Err(format!("the server does not tell a {service} version")),
    }
}

/// A Redis that the tests of this process share. `Debug` shows no password.
#[derive(Clone, Copy)]
pub struct RedisHandle {
    shared: &'static Shared<RedisServer>,
}

impl RedisHandle {
    /// The URL, with its password.
    pub fn url(&self) -> &'static str {
        &self.shared.url
    }

    /// The server, if this process started it.
    pub fn server(&self) -> Option<&'static RedisServer> {
        self.shared.server.as_ref()
    }

    /// A key space of one's own.
    pub fn test(&self) -> TestRedis {
        TestRedis { handle: *self, prefix: format!("t{}", unique_suffix('x')) }
    }
}

/// One test's part of a shared Redis: it must use only keys that begin with [`prefix`](Self::prefix).
///
/// On a server that the environment names, those keys are deleted on drop, unless the thread panics or
/// `TALLYWEIR_KEEP` is set; nothing else is ever touched there.
#[derive(Debug)]
pub struct TestRedis {
    handle: RedisHandle,
    prefix: String,
}

impl TestRedis {
    /// The URL, with its password.
    pub fn url(&self) -> &str {
        self.handle.url()
    }

    /// `t<pid>x<counter>x<nanoseconds>`: ASCII letters and digits only, never given twice.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }
}

impl Drop for TestRedis {
    fn drop(&mut self) {
        let keep = std::env::var_os(KEEP).is_some() || std::thread::panicking();
        if self.handle.server().is_none() && !keep {
            // Left-over keys disturb nobody: no prefix is ever given twice.
            let _ = Connection::open(self.url()).and_then(|mut redis| redis.delete_by_prefix(&self.prefix));
        }
    }
}

/// A PostgreSQL that the tests of this process share. `Debug` shows no password.
#[derive(Clone, Copy)]
pub struct PostgresHandle {
    shared: &'static Shared<PostgresServer>,
}

/// One test's database on a shared PostgreSQL.
pub type TestDatabase = Database;

impl PostgresHandle {
    /// The URL by which databases are created, with its password.
    pub fn url(&self) -> &'static str {
        &self.shared.url
    }

    /// The server, if this process started it.
    pub fn server(&self) -> Option<&'static PostgresServer> {
        self.shared.server.as_ref()
    }

    /// Creates a database whose name begins with `prefix`, as [`PostgresServer::database`].
    ///
    /// # Errors
    ///
    /// As [`PostgresServer::database`].
    pub fn database(&self, prefix: &str) -> Result<TestDatabase> {
        Database::create(self.url(), prefix)
    }
}

impl fmt::Debug for RedisHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisHandle").field("server", &self.server()).finish_non_exhaustive()
    }
}

impl fmt::Debug for PostgresHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresHandle").field("server", &self.server()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_given_server_that_is_too_old_or_something_else_is_refused() {
        assert!(
            at_least(Service::Redis, Some(Version { major: 6, minor: 2 }))
                .unwrap_err()
                .contains("7.0 or newer")
        );
        assert!(at_least(Service::Postgres, None).is_err());
        assert_eq!(at_least(Service::Postgres, Some(Version { major: 14, minor: 0 })), Ok(()));
    }

    #[test]
    fn a_given_server_is_asked_for_its_version() {
        let redis = RedisServer::builder().password("a/b").start().unwrap();
        assert_eq!(check_redis(redis.url()), Ok(()));
        assert!(check_redis("rediss://127.0.0.1/").is_err());
        assert_eq!(check_postgres(postgres().unwrap().url()), Ok(()));
        assert!(check_postgres(&format!("postgres://127.0.0.1:{}/postgres", redis.port())).is_err());
    }
}
