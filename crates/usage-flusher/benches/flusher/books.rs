//! The ledger as another session sees it.

use anyhow::Result;
use postgres::{Client, NoTls};

/// A module that comes with PostgreSQL.
pub(crate) const STATEMENTS: &str = "pg_stat_statements";

pub(crate) struct Books(Client);

impl Books {
    pub(crate) fn connect(url: &str) -> Result<Self> {
        Ok(Self(Client::connect(url, NoTls)?))
    }

    pub(crate) fn version(&mut self) -> Result<String> {
        Ok(self.0.query_one("select current_setting('server_version')", &[])?.get(0))
    }

    /// Settled events. Their batches' records are committed with them, and there are few of those to go through.
    pub(crate) fn settled(&mut self) -> Result<u64> {
        let sum: i64 =
            self.0.query_one("select coalesce(sum(events), 0)::bigint from flush_log", &[])?.get(0);
        Ok(u64::try_from(sum)?)
    }

    /// The sequence number up to which everything is settled.
    pub(crate) fn settled_up_to(&mut self) -> Result<Option<u64>> {
        let last: Option<i64> =
            self.0.query_one("select max(last_seq) from flush_log where shard = 0", &[])?.get(0);
        Ok(last.map(u64::try_from).transpose()?)
    }

    /// Begins to count statements. The server must have been started for it ([`STATEMENTS`]).
    pub(crate) fn count_statements(&mut self) -> Result<()> {
        Ok(self.0.batch_execute("create extension if not exists pg_stat_statements")?)
    }

    /// Statements that were run in a database, `BEGIN` and `COMMIT` too, the server's own upkeep not.
    ///
    /// The transactions of `pg_stat_database` would not do: a session reports them when it has touched a table, and asking
    /// whether a session is alive touches none.
    pub(crate) fn statements(&mut self, database: &str) -> Result<i64> {
        let calls = "select coalesce(sum(calls), 0)::bigint from pg_stat_statements \
            join pg_database on oid = dbid where datname = $1";
        Ok(self.0.query_one(calls, &[&database])?.get(0))
    }
}
