//! What the flusher needs of a ledger.

use std::error::Error;
use std::future::Future;

use iam_ledger::{Batch, Committed, Ledger, LedgerError};

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
    fn commit(&self, batch: &Batch<'_>) -> impl Future<Output = Result<Committed, Self::Error>> + Send;

    /// Whether the same call may succeed later without anybody mending anything.
    fn is_transient(error: &Self::Error) -> bool;
}

impl SpendLedger for Ledger {
    type Error = LedgerError;

    fn commit(&self, batch: &Batch<'_>) -> impl Future<Output = Result<Committed, LedgerError>> + Send {
        Self::commit(self, batch)
    }

    fn is_transient(error: &LedgerError) -> bool {
        error.is_transient()
    }
}
