//! Waiting until the flusher has carried everything into the ledger.

use std::collections::BTreeSet;
use std::time::Duration;

use iam_ledger::{Ledger, LedgerError, UsageRange};
use indicatif::ProgressBar;
use live_redis::{LiveRedis, LiveRedisError};
use spend_queue::{QueueError, SpendQueue};
use thiserror::Error;
use tokio::time::Instant;

use crate::journal::Journal;

const POLL: Duration = Duration::from_millis(100);

/// Neither store could be asked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Redis.
    #[error("spend queue: {0}")]
    Queue(#[from] LiveRedisError),
    /// PostgreSQL.
    #[error("ledger: {0}")]
    Ledger(#[from] LedgerError),
}

impl StoreError {
    /// Whether the same question may be answered later without anybody mending anything.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Queue(error) => error.is_transient(),
            Self::Ledger(error) => error.is_transient(),
        }
    }
}

/// Waits until the queue is empty and the ledger has as many events of the run as the journal, at most `patience`.
/// Returns what is missing if the time did not suffice. Errors that pass are waited out.
///
/// # Errors
///
/// [`StoreError`] that does not pass, or that lasted.
pub async fn drain(
    redis: &LiveRedis,
    ledger: &Ledger,
    journal: &Journal,
    patience: Duration,
    progress: &ProgressBar,
) -> Result<Option<String>, StoreError> {
    let start = Instant::now();
    let expected = journal.fingerprint.events;
    loop {
        let late = start.elapsed() > patience;
        match look(redis, ledger, journal).await {
            Ok((0, settled)) if settled >= expected => return Ok(None),
            Ok((queued, settled)) if late => {
                return Ok(Some(format!(
                    "after {patience:?} the ledger has {settled} of {expected} events and the queue holds {queued}; \
                     is a flusher running for this Redis, prefix and database?"
                )));
            }
            Ok((_, settled)) => progress.set_position(settled),
            Err(error) if late || !error.is_transient() => return Err(error),
            Err(_) => {}
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Entries in the queue, and events of the run in the ledger.
async fn look(redis: &LiveRedis, ledger: &Ledger, journal: &Journal) -> Result<(u64, u64), StoreError> {
    let queued = queue_length(redis).await?;
    // The events of a run are all in the queue before it is drained, so an empty queue is worth a look at the ledger.
    let settled = settled(ledger, journal).await?;
    Ok((queued, settled))
}

/// Entries in all shards of the queue.
///
/// # Errors
///
/// When a shard cannot be read.
pub async fn queue_length(redis: &LiveRedis) -> Result<u64, LiveRedisError> {
    let mut length = 0;
    for shard in redis.shards().iter() {
        length += redis.depth(shard).await?;
    }
    Ok(length)
}

async fn settled(ledger: &Ledger, journal: &Journal) -> Result<u64, LedgerError> {
    let mut settled = 0;
    for range in ranges(journal) {
        settled += ledger.daily_usage(&range).await?.iter().map(|usage| usage.sums.events).sum::<u64>();
    }
    Ok(settled)
}

/// All days of the run, one range for each of its organizations.
pub(crate) fn ranges(journal: &Journal) -> Vec<UsageRange> {
    let days = || journal.days.keys().map(|key| key.day);
    let (Some(from), Some(last)) = (days().min(), days().max()) else { return Vec::new() };
    let until = last.succ_opt().unwrap_or(last);
    let organizations: BTreeSet<&str> = journal.days.keys().map(|key| &*key.organization).collect();
    organizations
        .into_iter()
        .map(|organization| UsageRange { organization_id: Some(organization.to_owned()), from, until })
        .collect()
}
