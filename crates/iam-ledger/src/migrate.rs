//! The schema's version.

use std::collections::BTreeMap;

use chrono::NaiveDate;
use sqlx::migrate::{MigrateError, Migrator};
use sqlx::{Connection, Executor};

use crate::error::Cause;
use crate::{Ledger, LedgerError};

/// Embedded, so that a binary brings the schema that it needs.
static MIGRATIONS: Migrator = sqlx::migrate!();
/// The SQLSTATE of a database that was never migrated.
const UNDEFINED_TABLE: &str = "42P01";
/// This month and the two after it: a flusher that restarts once a month or calls
/// [`Ledger::ensure_partitions`] is always ahead, and otherwise the default partition takes what comes.
const MONTHS_AHEAD: u32 = 3;

/// How a database's schema compares with the one that this program knows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MigrationStatus {
    /// Applied as this program knows them.
    pub applied: Vec<i64>,
    /// Known and not applied.
    pub pending: Vec<i64>,
    /// Applied and not known: the database is newer than the program.
    pub newer: Vec<i64>,
    /// Applied with another content, or not completely.
    pub differing: Vec<i64>,
}

impl MigrationStatus {
    /// Whether program and database agree.
    ///
    /// # Errors
    ///
    /// [`LedgerError::MigrationsNewer`], [`LedgerError::MigrationsDiffer`] or [`LedgerError::MigrationsPending`], in this
    /// order: only the last is mended by migrating.
    pub fn check(&self) -> Result<(), LedgerError> {
        if !self.newer.is_empty() {
            return Err(LedgerError::MigrationsNewer(self.newer.clone()));
        }
        if !self.differing.is_empty() {
            return Err(LedgerError::MigrationsDiffer(self.differing.clone()));
        }
        if !self.pending.is_empty() {
            return Err(LedgerError::MigrationsPending(self.pending.clone()));
        }
        Ok(())
    }
}

impl Ledger {
    /// Brings the schema up to date and makes the partitions of this month and the next two. Safe to repeat, and safe
    /// to run from several hosts at once: an advisory lock lets one go first.
    ///
    /// # Errors
    ///
    /// [`LedgerError::Migrate`], after which the failed migration is rolled back and those before it stay;
    /// [`LedgerError::MigrationsNewer`] or [`LedgerError::MigrationsDiffer`] when this program must not touch the
    /// database.
    pub async fn migrate(&self) -> Result<(), LedgerError> {
        match self.migration_status().await?.check() {
            Ok(()) | Err(LedgerError::MigrationsPending(_)) => {}
            Err(error) => return Err(error),
        }
        // The lock and the lifted timeout belong to the session, so it is not one of the pool.
        let mut connection = self.own_connection().await?;
        connection
            .execute("set statement_timeout = 0")
            .await
            .map_err(LedgerError::query("preparing the session for migrations"))?;
        MIGRATIONS.run_direct(None, &mut connection, false).await.map_err(migrate_error)?;
        connection.close().await.map_err(LedgerError::query("closing the session for migrations"))?;
        self.ensure_partitions(None, MONTHS_AHEAD).await.map(drop)
    }

    /// Compares the database's schema with the one that this program knows. Changes nothing.
    ///
    /// # Errors
    ///
    /// When the database cannot be read. An empty one can: everything is pending.
    pub async fn migration_status(&self) -> Result<MigrationStatus, LedgerError> {
        let rows = match sqlx::query_file!("queries/applied_migrations.sql").fetch_all(&self.pool).await {
            Ok(rows) => rows,
            Err(error) if is_undefined_table(&error) => Vec::new(),
            Err(error) => return Err(self.failed("reading the applied migrations", error)),
        };
        let known: BTreeMap<i64, &[u8]> = MIGRATIONS
            .iter()
            .filter(|migration| !migration.migration_type.is_down_migration())
            .map(|migration| (migration.version, &*migration.checksum))
            .collect();
        let mut status = MigrationStatus::default();
        for row in &rows {
            let place = match known.get(&row.version) {
                None => &mut status.newer,
                Some(checksum) if row.success && *checksum == row.checksum => &mut status.applied,
                Some(_) => &mut status.differing,
            };
            place.push(row.version);
        }
        status.pending =
            known.into_keys().filter(|known| rows.iter().all(|row| row.version != *known)).collect();
        Ok(status)
    }

    /// Refuses to work with a schema that is older or newer than this program. Call it before the first batch.
    ///
    /// # Errors
    ///
    /// Those of [`Ledger::migration_status`] and [`MigrationStatus::check`].
    pub async fn require_migrated(&self) -> Result<(), LedgerError> {
        self.migration_status().await?.check()
    }

    /// Makes the missing monthly partitions of the settled events, from the month of a day on (`None`: the server's
    /// today), and returns how many it made. Commits wait for it a moment only if events of such a month are in the
    /// default partition already; they are moved.
    ///
    /// # Errors
    ///
    /// When the server refuses; nothing was made.
    pub async fn ensure_partitions(&self, from: Option<NaiveDate>, months: u32) -> Result<u32, LedgerError> {
        let months = i32::try_from(months).map_err(|_| LedgerError::OutOfRange {
            what: "the number of months",
            value: months.to_string(),
            bound: i32::MAX.to_string(),
        })?;
        let row = sqlx::query_file!("queries/ensure_usage_partitions.sql", from, months)
            .fetch_one(&self.pool)
            .await
            .map_err(|error| self.failed("making partitions", error))?;
        Ok(row.created.unsigned_abs())
    }

    /// How many months, from that of a day on (`None`: the server's today) and without a gap, have a partition: 0 means
    /// that events of that month go to the default one. To be watched: below 2, the next month's are about to.
    ///
    /// # Errors
    ///
    /// When the database cannot be read.
    pub async fn partition_headroom(&self, from: Option<NaiveDate>) -> Result<u32, LedgerError> {
        let row = sqlx::query_file!("queries/partition_headroom.sql", from)
            .fetch_one(&self.pool)
            .await
            .map_err(|error| self.failed("counting partitions", error))?;
        Ok(u32::try_from(row.months).unwrap_or_default())
    }

    /// How many events are in the default partition, because their month had none when they were settled. There should be
    /// none: making a month's partition later has to move its events. It reads all of them.
    ///
    /// # Errors
    ///
    /// When the database cannot be read.
    pub async fn default_partition_rows(&self) -> Result<u64, LedgerError> {
        let row = sqlx::query_file!("queries/default_partition_rows.sql")
            .fetch_one(&self.pool)
            .await
            .map_err(|error| self.failed("counting events without a partition", error))?;
        Ok(row.rows.unsigned_abs())
    }
}

fn is_undefined_table(error: &sqlx::Error) -> bool {
    error.as_database_error().and_then(|error| error.code()).is_some_and(|code| code == UNDEFINED_TABLE)
}

fn migrate_error(error: MigrateError) -> LedgerError {
    match error {
        MigrateError::VersionMissing(version) => LedgerError::MigrationsNewer(vec![version]),
        MigrateError::VersionMismatch(version) | MigrateError::Dirty(version) => {
            LedgerError::MigrationsDiffer(vec![version])
        }
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => {
            LedgerError::Migrate(Cause::new(error))
        }
        other => LedgerError::Migrate(Cause::new(sqlx::Error::Migrate(Box::new(other)))),
    }
}
