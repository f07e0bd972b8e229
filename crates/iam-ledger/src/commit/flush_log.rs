//! The batch's own record, which an audit compares with the queue.

use chrono::{DateTime, Utc};
use spend_queue::{Chain, Entry};
use sqlx::PgConnection;

use super::Batch;
use crate::LedgerError;

/// The batch's record, with numbers that fit their columns.
pub(super) struct FlushLog {
    prefix: String,
    shards: i32,
    shard: i32,
    first_seq: i64,
    last_seq: i64,
    chain: Chain,
    events: i32,
}

impl FlushLog {
    /// `None` for entries without a place in a chain: there is nothing to compare then.
    pub(super) fn of(batch: &Batch<'_>) -> Result<Option<Self>, LedgerError> {
        let first = batch.entries.iter().find_map(place_of);
        let last = batch.entries.iter().rev().find_map(place_of);
        let (Some((first_seq, _)), Some((last_seq, chain))) = (first, last) else { return Ok(None) };
        let events = batch.entries.len();
        let events = i32::try_from(events).map_err(|_| LedgerError::OutOfRange {
            what: "the size of a batch",
            value: events.to_string(),
            bound: i32::MAX.to_string(),
        })?;
        Ok(Some(Self {
            prefix: batch.epoch.prefix().to_owned(),
            shards: batch.epoch.shards().get().into(),
            shard: batch.shard.index().into(),
            first_seq,
            last_seq,
            chain,
            events,
        }))
    }

    pub(super) async fn write(
        &self,
        connection: &mut PgConnection,
        at: DateTime<Utc>,
    ) -> Result<(), LedgerError> {
        sqlx::query_file!(
            "queries/log_flush.sql",
            self.prefix,
            self.shards,
            self.shard,
            self.first_seq,
            self.last_seq,
            self.chain.as_bytes().as_slice(),
            self.events,
            at
        )
        .execute(connection)
        .await
        .map_err(LedgerError::query("recording the flush"))?;
        Ok(())
    }
}

/// Number and link of an entry: the one place that knows whether an entry has them. A number beyond a `BIGINT`, which no
/// queue of ours counts up to, is as good as none: the bill behind it is still a bill.
fn place_of(entry: &Entry) -> Option<(i64, Chain)> {
    let link = entry.link?;
    i64::try_from(link.seq).ok().map(|seq| (seq, link.chain))
}

/// The number of an entry, if it has one.
pub(crate) fn seq_of(entry: &Entry) -> Option<i64> {
    place_of(entry).map(|(seq, _)| seq)
}
