//! The ledger's connections.

use core::fmt;
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::{Connection, PgConnection, Postgres};

use crate::LedgerError;
use crate::address::Address;
use crate::error::Cause;
use crate::lease::Lease;
use crate::quota::{Shapes, shapes};

/// The oldest PostgreSQL that the ledger works with, as `server_version_num`: 14.0.
pub const MIN_SERVER_VERSION: i32 = 140_000;

/// How the ledger connects. Each duration is rounded down to whole milliseconds, and 0 turns that limit off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerOptions {
    /// What `pg_stat_activity` shows, unless the URL or `PGAPPNAME` says otherwise. Default: `iam-ledger`.
    pub application_name: String,
    /// The most connections of the pool, at least 1. A commit needs one, so a flusher needs one for each shard that it works on
    /// at once, and one more for its other reads; [`Ledger::shard_locks`] use one outside the pool. Default: 5.
    pub max_connections: u32,
    /// How long the first connection may take. Longer hides a wrong host, shorter fails on a slow one. Default: 10 s.
    pub connect_timeout: Duration,
    /// How long a call waits for a free connection. Default: 10 s.
    pub acquire_timeout: Duration,
    /// How long the server works on one statement before it cancels it. Default: 30 s.
    pub statement_timeout: Duration,
    /// How long the server keeps a transaction whose client is silent; it bounds how long a host that vanished in
    /// mid-commit can hold locks. Default: 60 s.
    pub idle_in_transaction_timeout: Duration,
    /// For how long a connection may have been idle before it is asked whether it still answers, ahead of a call that gets it. That
    /// is a round trip. A connection that was lost within this time makes the next call on it fail, which is transient. Default: 0, each call asks.
    pub probe_after_idle: Duration,
    /// Whether sessions plan a statement once and not anew for its values (`plan_cache_mode`). For a host that authenticates and
    /// reads budgets: these go by keys of indexes, so values change no plan, and planning takes three times as long as running. Not
    /// for commits, whose batches differ in size. Default: no.
    pub generic_plans: bool,
}

impl Default for LedgerOptions {
    fn default() -> Self {
        Self {
            application_name: "iam-ledger".to_owned(),
            max_connections: 5,
            connect_timeout: Duration::from_secs(10),
            acquire_timeout: Duration::from_secs(10),
            statement_timeout: Duration::from_secs(30),
            idle_in_transaction_timeout: Duration::from_secs(60),
            probe_after_idle: Duration::ZERO,
            generic_plans: false,
        }
    }
}

/// How a ledger's pool stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolStatus {
    /// Connections that are open.
    pub connections: u32,
    /// Those of them that nobody uses.
    pub idle: u32,
    /// [`LedgerOptions::max_connections`].
    pub max_connections: u32,
}

/// The ledger. A handle that is cheap to clone; all clones share one pool.
///
/// Every session runs in UTC with `synchronous_commit` at least `on`, so a commit that was answered is on disk. Such
/// settings belong to a session: behind PgBouncer the pool mode must be `session`.
#[derive(Clone)]
pub struct Ledger {
    pub(crate) pool: PgPool,
    pub(crate) shapes: Shapes,
    target: Arc<str>,
    acquire_timeout: Duration,
    /// Whether the role only reads, wherever it is.
    is_reader: bool,
}

impl Ledger {
    /// Connects once, to find out at start rather than at the first batch what is wrong, and opens a pool.
    ///
    /// What the URL leaves out is taken from the `PG*` environment variables. Its parameters are those of sqlx; others
    /// are refused. Without `sslmode` TLS is used only if the server offers it: say `sslmode=verify-full` whenever
    /// the connection leaves the machine.
    ///
    /// # Errors
    ///
    /// [`LedgerError::Url`], [`LedgerError::Connect`] and [`LedgerError::ConnectTimedOut`] say which step failed and
    /// never contain the password (a connection that ended in mid-handshake is transient: a server that starts, stops or is
    /// replaced does that); [`LedgerError::ServerTooOld`] below PostgreSQL 14; [`LedgerError::Standby`] when the server takes no
    /// writes, which is transient: it may be promoted.
    pub async fn connect(url: &SecretString, options: LedgerOptions) -> Result<Self, LedgerError> {
        let Address { options: connect, target } = Address::parse(url)?;
        let connect = session(connect, &options);
        let probe_after_idle = options.probe_after_idle;
        let is_reader = check_server(&connect, &target, options.connect_timeout).await?;
        let pool = PgPoolOptions::new()
            .max_connections(options.max_connections.max(1))
            .acquire_timeout(options.acquire_timeout)
            // Our own question takes its place.
            .test_before_acquire(false)
            .before_acquire(move |connection, about| {
                Box::pin(async move {
                    if about.idle_for >= probe_after_idle {
                        connection.ping().await?;
                    }
                    Ok(true)
                })
            })
            .after_connect(|connection, _| Box::pin(secure(connection)))
            .connect_lazy_with(connect);
        Ok(Self {
            pool,
            shapes: shapes(),
            target: target.into(),
            acquire_timeout: options.acquire_timeout,
            is_reader,
        })
    }

    /// Closes all connections, waiting for those in use. Calls fail from now on, on every clone.
    pub async fn close(&self) {
        self.pool.close().await;
    }

    /// Whether the database answers, on a connection of the pool: for readiness.
    ///
    /// # Errors
    ///
    /// [`LedgerError::Busy`] or [`LedgerError::Query`].
    pub async fn ping(&self) -> Result<(), LedgerError> {
        let asked = async { self.pool.acquire().await?.ping().await };
        asked.await.map_err(|error| self.failed("asking whether the database answers", error))
    }

    /// `host:port/database`, for people.
    #[must_use]
    pub fn target(&self) -> &str {
        &self.target
    }

    /// How the pool stands now.
    #[must_use]
    pub fn pool_status(&self) -> PoolStatus {
        PoolStatus {
            connections: self.pool.size(),
            idle: u32::try_from(self.pool.num_idle()).unwrap_or(u32::MAX),
            max_connections: self.pool.options().get_max_connections(),
        }
    }

    /// A connection that is thrown away unless it is known to be sound.
    pub(crate) async fn lease(&self) -> Result<Lease, LedgerError> {
        self.pool.acquire().await.map(Lease::new).map_err(|error| match error {
            busy @ (sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed) => {
                self.failed("getting a connection", busy)
            }
            // A new connection was to be made, and its handshake failed.
            error => LedgerError::Connect { target: self.target.to_string(), cause: Cause::new(error) },
        })
    }

    /// A connection to a primary outside the pool, for what must not leave its traces in one.
    pub(crate) async fn own_connection(&self) -> Result<PgConnection, LedgerError> {
        let failed =
            |error| LedgerError::Connect { target: self.target.to_string(), cause: Cause::new(error) };
        let mut connection =
            PgConnection::connect_with(&self.pool.connect_options()).await.map_err(failed)?;
        let server = sqlx::query_file!("queries/server_version.sql").fetch_one(&mut connection).await;
        if server.map_err(failed)?.standby {
            return Err(LedgerError::Standby { step: "connecting" });
        }
        Ok(connection)
    }

    /// A connection of the pool for reads by which money is decided: give it back by [`Ledger::believe`].
    pub(crate) async fn reader(&self, step: &'static str) -> Result<PoolConnection<Postgres>, LedgerError> {
        self.pool.acquire().await.map_err(|error| self.failed(step, error))
    }

    /// Whether what a connection said may be believed: a server that takes no writes may have old budgets. Its connection is
    /// thrown away, so that the next call finds the primary where the address points to it.
    pub(crate) fn believe(
        &self,
        mut connection: PoolConnection<Postgres>,
        read_only: bool,
        step: &'static str,
    ) -> Result<(), LedgerError> {
        if read_only && !self.is_reader {
            connection.close_on_drop();
            return Err(LedgerError::Standby { step });
        }
        Ok(())
    }

    pub(crate) fn failed(&self, step: &'static str, error: sqlx::Error) -> LedgerError {
        match error {
            sqlx::Error::PoolTimedOut => {
                LedgerError::Busy { target: self.target.to_string(), waited: self.acquire_timeout }
            }
            error => LedgerError::query(step)(error),
        }
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Never the pool: its options hold the password.
        f.debug_struct("Ledger").field("target", &self.target).finish_non_exhaustive()
    }
}

/// The settings that a session starts with; sqlx itself asks for UTC and UTF-8.
fn session(connect: PgConnectOptions, options: &LedgerOptions) -> PgConnectOptions {
    let connect = match connect.get_application_name() {
        Some(_) => connect,
        None => connect.application_name(&options.application_name),
    };
    let connect = connect.options([
        ("statement_timeout", options.statement_timeout.as_millis().to_string()),
        ("idle_in_transaction_session_timeout", options.idle_in_transaction_timeout.as_millis().to_string()),
    ]);
    if options.generic_plans { connect.options([("plan_cache_mode", "force_generic_plan")]) } else { connect }
}

async fn secure(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::query_file!("queries/secure_session.sql").fetch_optional(connection).await.map(drop)
}

/// Whether the role only reads. Not left to the pool, which retries a refused connection until its own timeout and then names no cause.
async fn check_server(
    connect: &PgConnectOptions,
    target: &str,
    limit: Duration,
) -> Result<bool, LedgerError> {
    let target = || target.to_owned();
    let failed = |error| LedgerError::Connect { target: target(), cause: Cause::new(error) };
    let limit = if limit.is_zero() { Duration::MAX } else { limit };
    // Dropping the future abandons a connection that nobody else has.
    let server = tokio::time::timeout(limit, async {
        let mut connection = PgConnection::connect_with(connect).await?;
        let found = sqlx::query_file!("queries/server_version.sql").fetch_one(&mut connection).await?;
        connection.close().await?;
        Ok(found)
    })
    .await
    .map_err(|_| LedgerError::ConnectTimedOut { target: target(), waited: limit })?
    .map_err(failed)?;
    if server.version < MIN_SERVER_VERSION {
        return Err(LedgerError::ServerTooOld { target: target(), found: server.version });
    }
    if server.standby {
        return Err(LedgerError::Standby { step: "connecting" });
    }
    Ok(server.reader)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_planned_once_only_where_that_was_asked_for() {
        let settings = |generic_plans| {
            let options = LedgerOptions { generic_plans, ..LedgerOptions::default() };
            session(PgConnectOptions::new_without_pgpass(), &options)
                .get_options()
                .unwrap_or_default()
                .to_owned()
        };
        assert!(settings(true).contains("plan_cache_mode=force_generic_plan"));
        assert!(!settings(false).contains("plan_cache_mode"));
    }
}
