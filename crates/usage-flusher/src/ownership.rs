//! Which shards this flusher works on, when several share them.

use std::collections::BTreeSet;
use std::future::Future;

use iam_ledger::{Ledger, LedgerError, ShardLocks};
use spend_queue::Shard;

use crate::ledger::SpendLedger;
use crate::meters;

/// Decides which shards this process works on. For efficiency alone: two flushers on one shard do the same work, and no
/// harm.
pub trait Ownership: Send + 'static {
    /// What can go wrong.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Asks for shards; answers which of them are ours from now until the next call.
    ///
    /// # Errors
    ///
    /// When it cannot be known: then none is.
    fn hold(&mut self, wanted: &[Shard])
    -> impl Future<Output = Result<BTreeSet<Shard>, Self::Error>> + Send;

    /// Gives all of them up, so that others take them over at once.
    fn release(self) -> impl Future<Output = ()> + Send;
}

impl Ownership for ShardLocks {
    type Error = LedgerError;

    async fn hold(&mut self, wanted: &[Shard]) -> Result<BTreeSet<Shard>, LedgerError> {
        let held = Self::hold(self, wanted).await;
        held.inspect_err(|error| meters::postgresql_error(&Ledger::error_class(error))).cloned()
    }

    fn release(self) -> impl Future<Output = ()> + Send {
        Self::release(self)
    }
}

/// Every shard is ours, whatever others do.
#[derive(Debug, Clone, Copy)]
pub struct Alone;

impl Ownership for Alone {
    type Error = std::convert::Infallible;

    async fn hold(&mut self, wanted: &[Shard]) -> Result<BTreeSet<Shard>, Self::Error> {
        Ok(wanted.iter().copied().collect())
    }

    async fn release(self) {}
}
