//! How what moves spend between periods stays small.

use crate::{Ledger, LedgerError};

impl Ledger {
    /// Deletes at most `limit` (1 to 100,000; others are moved into it) sums by quarter of an hour that are older than 70 days by
    /// the database's clock, and returns how many. Call again while it returns `limit`. Any number of callers may prune at once.
    ///
    /// The longest period is a month, and a time zone is at most a day away from another: what is deleted is in no period that
    /// runs, whatever a budget's period and zone become. A scope's sums by period are not touched.
    ///
    /// # Errors
    ///
    /// When the database failed, or this role may not delete from the table.
    pub async fn prune_spend_quarters(&self, limit: u32) -> Result<u64, LedgerError> {
        let row = sqlx::query_file!("queries/prune_spend_quarters.sql", i64::from(limit.clamp(1, 100_000)))
            .fetch_one(&self.pool)
            .await
            .map_err(|error| self.failed("pruning spend by quarter of an hour", error))?;
        Ok(row.pruned.unsigned_abs())
    }
}
