//! How the record of flushed batches stays small without losing what an audit needs.
//!
//! Rows go in the order of their numbers, from the lowest, and the first one that must stay stops it. So whatever is left still
//! covers every number from its own lowest to its highest that it covered before: a row that covers a number has a last number
//! no lower than it, and all rows with such numbers are left. No break appears that was not there.

use chrono::{DateTime, Utc};
use spend_queue::{Epoch, Shard};

use crate::{Ledger, LedgerError};

impl Ledger {
    /// Deletes at most `limit` (1 to 100,000; others are moved into it) rows of the flush log of an epoch's shard that were committed before `horizon`,
    /// and returns how many. Call again while it returns `limit`. Any number of callers may prune at once.
    ///
    /// # What stays
    ///
    /// The batch with the greatest number, whatever its age, so that [`Ledger::last_flush`] still tells where the queue must go
    /// on; and every batch from the first one, by number, that is younger than the horizon. [`Ledger::audit`] finds no break
    /// that it did not find before, and those within what is left as before. After a rewind of Redis the numbers of the older
    /// history stay until the newer one has passed them.
    ///
    /// # Errors
    ///
    /// When the database failed, or this role may not delete from the flush log.
    pub async fn prune_flush_log(
        &self,
        epoch: &Epoch,
        shard: Shard,
        horizon: DateTime<Utc>,
        limit: u32,
    ) -> Result<u64, LedgerError> {
        let limit = i64::from(limit.clamp(1, 100_000));
        let row = sqlx::query_file!(
            "queries/prune_flush_log.sql",
            epoch.prefix(),
            i32::from(epoch.shards().get()),
            i32::from(shard.index()),
            horizon,
            limit
        )
        .fetch_one(&self.pool)
        .await
        .map_err(|error| self.failed("pruning the flush log", error))?;
        Ok(row.pruned.unsigned_abs())
    }
}
