//! Where the record of flushed batches ends, by epoch: numbers of two epochs do not compare.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use spend_queue::{Chain, Epoch, Shard, ShardCount};

use crate::{Ledger, LedgerError};

/// The end of a batch in the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlushEnd {
    /// Number of its last entry.
    pub seq: u64,
    /// Link of its last entry.
    pub chain: Chain,
    /// Its committer's time.
    pub committed_at: DateTime<Utc>,
}

/// An epoch that has batches in the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownEpoch {
    /// The epoch.
    pub epoch: Epoch,
    /// How many of its batches the record still has.
    pub batches: u64,
    /// When the latest was committed, by its committer's clock.
    pub last_committed_at: DateTime<Utc>,
}

impl Ledger {
    /// The batch of a shard with the greatest number; `None` when the epoch has none. It does not go by the committers' clocks,
    /// which may differ: only of two histories with one number the later one is meant.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub async fn last_flush(&self, epoch: &Epoch, shard: Shard) -> Result<Option<FlushEnd>, LedgerError> {
        let row = sqlx::query_file!(
            "queries/last_flush.sql",
            epoch.prefix(),
            i32::from(epoch.shards().get()),
            i32::from(shard.index())
        )
        .fetch_optional(&self.pool)
        .await
        .map_err(|error| self.failed("reading the flush log", error))?;
        row.map(|row| {
            Ok(FlushEnd {
                seq: number(row.last_seq)?,
                chain: link(&row.chain)?,
                committed_at: row.committed_at,
            })
        })
        .transpose()
    }

    /// The batches of a shard that end with this number: none, one, or one for each history that has it.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    pub async fn flushes_ending_at(
        &self,
        epoch: &Epoch,
        shard: Shard,
        seq: u64,
    ) -> Result<Vec<FlushEnd>, LedgerError> {
        // No record has a number beyond a BIGINT.
        let Ok(wanted) = i64::try_from(seq) else { return Ok(Vec::new()) };
        let rows = sqlx::query_file!(
            "queries/flushes_ending_at.sql",
            epoch.prefix(),
            i32::from(epoch.shards().get()),
            i32::from(shard.index()),
            wanted
        )
        .fetch_all(&self.pool)
        .await
        .map_err(|error| self.failed("reading the flush log", error))?;
        rows.into_iter()
            .map(|row| Ok(FlushEnd { seq, chain: link(&row.chain)?, committed_at: row.committed_at }))
            .collect()
    }

    /// Every epoch that the record of flushed batches knows, the one with the latest batch first.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    pub async fn flush_epochs(&self) -> Result<Vec<KnownEpoch>, LedgerError> {
        let rows = sqlx::query_file!("queries/flush_epochs.sql")
            .fetch_all(&self.pool)
            .await
            .map_err(|error| self.failed("reading the epochs of the flush log", error))?;
        rows.into_iter()
            .map(|row| {
                let shards = u16::try_from(row.shards).ok().and_then(|count| ShardCount::new(count).ok());
                let unreadable =
                    || LedgerError::Unreadable { column: "shards", value: row.shards.to_string() };
                Ok(KnownEpoch {
                    epoch: Epoch::new(row.prefix, shards.ok_or_else(unreadable)?),
                    batches: u64::try_from(row.batches).unwrap_or_default(),
                    last_committed_at: row.last_committed_at,
                })
            })
            .collect()
    }

    /// The greatest number of each shard of an epoch that has one, by the shard's number.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    pub async fn epoch_ends(&self, epoch: &Epoch) -> Result<BTreeMap<u16, u64>, LedgerError> {
        let shards = i32::from(epoch.shards().get());
        let rows = sqlx::query_file!("queries/epoch_ends.sql", epoch.prefix(), shards)
            .fetch_all(&self.pool)
            .await
            .map_err(|error| self.failed("reading the ends of an epoch", error))?;
        rows.into_iter()
            .map(|row| {
                let shard = u16::try_from(row.shard)
                    .map_err(|_| LedgerError::Unreadable { column: "shard", value: row.shard.to_string() })?;
                Ok((shard, number(row.last_seq)?))
            })
            .collect()
    }
}

fn number(seq: i64) -> Result<u64, LedgerError> {
    u64::try_from(seq).map_err(|_| LedgerError::Unreadable { column: "last_seq", value: seq.to_string() })
}

fn link(chain: &[u8]) -> Result<Chain, LedgerError> {
    let unreadable = |_| LedgerError::Unreadable { column: "chain", value: format!("{} bytes", chain.len()) };
    <[u8; 20]>::try_from(chain).map(Chain::from).map_err(unreadable)
}
