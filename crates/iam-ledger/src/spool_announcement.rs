//! What gateways say that they hold on their disks: bills that neither the queue nor the ledger knows.

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::{Ledger, LedgerError};

/// What one gateway's spool holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpoolAnnouncement {
    /// Which gateway: 1 to 256 bytes. Each spool needs a name of its own, the same after a restart.
    pub instance: String,
    /// Bills that it holds.
    pub events: u64,
    /// Their bytes.
    pub bytes: u64,
    /// When the oldest was made ready; `None` for an empty spool.
    pub oldest: Option<DateTime<Utc>>,
}

impl Ledger {
    /// Records what a gateway's spool holds, in place of what it said before.
    ///
    /// # Errors
    ///
    /// When it may not have been recorded; repeating the call is safe. A name that is empty or too long is refused by the table.
    pub async fn announce_spool(&self, said: &SpoolAnnouncement) -> Result<(), LedgerError> {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        sqlx::query_file!(
            "queries/announce_spool.sql",
            said.instance,
            number(said.events),
            number(said.bytes),
            said.oldest
        )
        .execute(&self.pool)
        .await
        .map(drop)
        .map_err(|error| self.failed("announcing a spool", error))
    }

    /// Spools that say that they hold bills, at most `most`, each with how long ago it said so by the server's clock.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    pub async fn announced_spools(
        &self,
        most: u32,
    ) -> Result<Vec<(SpoolAnnouncement, Duration)>, LedgerError> {
        let rows = sqlx::query_file!("queries/spool_announcements.sql", i64::from(most))
            .fetch_all(&self.pool)
            .await
            .map_err(|error| self.failed("reading what spools hold", error))?;
        let number = |number: i64| u64::try_from(number).unwrap_or_default();
        Ok(rows
            .into_iter()
            .map(|row| {
                let (events, bytes) = (number(row.events), number(row.bytes));
                let said = SpoolAnnouncement { instance: row.instance, events, bytes, oldest: row.oldest };
                (said, Duration::from_secs(number(row.age_seconds)))
            })
            .collect())
    }
}
