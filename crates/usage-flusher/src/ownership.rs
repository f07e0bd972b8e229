//! Which shards this flusher works on, when several share them.

use std::collections::BTreeSet;
use std::future::Future;

use iam_ledger::{LedgerError, ShardLocks};
use spend_queue::Shard;

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
        Self::hold(self, wanted).await.cloned()
    }

    fn release(self) -> impl Future<Output = ()> + Send {
        Self::release(self)
    }
}

/// [`ShardLocks`] whose session goes with a call that is given up.
///
/// The other end of a session may vanish without closing it, and then nothing on it is ever answered. Whoever bounds the wait
/// for an answer must not ask the same session again, or this process would never own a shard any more.
#[derive(Debug)]
pub struct SessionLocks<F> {
    make: F,
    /// `None` before the first call, and after one that was given up.
    locks: Option<ShardLocks>,
}

impl<F: Fn() -> ShardLocks> SessionLocks<F> {
    /// Locks that are made anew, with a session of their own, whenever the ones before are in doubt.
    pub const fn new(make: F) -> Self {
        Self { make, locks: None }
    }
}

impl<F: Fn() -> ShardLocks + Send + 'static> Ownership for SessionLocks<F> {
    type Error = LedgerError;

    async fn hold(&mut self, wanted: &[Shard]) -> Result<BTreeSet<Shard>, LedgerError> {
        // Taken out: a future that is dropped on the way closes the session. The server gives its locks up then, or when it
        // has been silent for long enough.
        let mut locks = self.locks.take().unwrap_or_else(&self.make);
        let held = locks.hold(wanted).await.cloned();
        self.locks = Some(locks);
        held
    }

    async fn release(self) {
        if let Some(locks) = self.locks {
            locks.release().await;
        }
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
