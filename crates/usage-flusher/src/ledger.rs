//! What the flusher needs of a ledger.

use std::error::Error;
use std::future::Future;

use chrono::{DateTime, Utc};
use iam_ledger::{Batch, Ledger, LedgerError};
use spend_queue::Peeked;

/// A place that settles batches of events durably, each request id once.
///
/// # What every implementation owes
///
/// A batch is committed as a whole or not at all, durably before the call returns, and idempotently: an event
/// whose request id is settled already changes nothing. So a batch whose outcome is unknown is committed again.
pub trait SpendLedger: Clone + Send + Sync + 'static {
    /// What can go wrong.
    type Error: Error + Send + Sync + 'static;

    /// Settles the entries of a batch.
    ///
    /// # Errors
    ///
    /// When the batch may not be settled; repeating the call is safe.
    fn commit(
        &self,
        batch: &Peeked,
        at: DateTime<Utc>,
    ) -> impl Future<Output = Result<CommitSummary, Self::Error>> + Send;

    /// Whether the same call may succeed later without anybody mending anything.
    fn is_transient(error: &Self::Error) -> bool;
}

/// What a commit did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommitSummary {
    /// Events that were settled now.
    pub new: u64,
    /// Events that had been settled before.
    pub duplicates: u64,
    /// Request ids that had been settled before with another payload; the first one stays.
    pub conflicts: Vec<String>,
}
