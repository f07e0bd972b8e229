//! The strict reading of what is enqueued and not yet acknowledged.

use core::future::Future;

use chrono::{DateTime, Utc};

use crate::{QueueError, ScopeRef, Usd};

/// One amount of pending spend: what a method of [`PendingSpend`] is asked for, as a value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PendingQuery {
    /// As [`PendingSpend::pending`].
    Scope(ScopeRef),
    /// As [`PendingSpend::pending_since`].
    Organization {
        /// Whose.
        id: String,
        /// The first instant that counts.
        since: DateTime<Utc>,
    },
    /// As [`PendingSpend::pending_key`], by the id of the key's row.
    Key(String),
}

/// Reads of pending spend that a budget may depend on: exact, or an error, never a guess.
///
/// With more than one shard an answer is the sum of what each shard held at its own instant; an event never moves between
/// shards, so nothing is counted twice or missed that was pending during the whole call.
pub trait PendingSpend: Send + Sync {
    /// What can go wrong. The host must treat every error as "unknown", and refuse what depends on the answer.
    type Error: QueueError;

    /// Everything pending for a scope.
    ///
    /// # Errors
    ///
    /// When the amount cannot be read exactly.
    fn pending(&self, scope: &ScopeRef) -> impl Future<Output = Result<Usd, Self::Error>> + Send;

    /// What is pending for the scope `organization/<organization_id>` of events that started at `instant` or later, or that
    /// do not say when they started. Resolution: one millisecond, in favour of counting an event as current.
    ///
    /// # Errors
    ///
    /// When the amount cannot be read exactly, or not without delaying others: a queue may bound how much that started earlier it
    /// looks at. That error is transient, and passes when what is older is acknowledged.
    fn pending_since(
        &self,
        organization_id: &str,
        instant: DateTime<Utc>,
    ) -> impl Future<Output = Result<Usd, Self::Error>> + Send;

    /// Everything pending for a key, by the stable id of its row: rotating the secret changes nothing.
    ///
    /// # Errors
    ///
    /// When the amount cannot be read exactly, which includes a paid event of an older deployment that does not say
    /// which row its key is.
    fn pending_key(&self, key_id: &str) -> impl Future<Output = Result<Usd, Self::Error>> + Send;

    /// Several amounts, in the order in which they are asked for. A queue that can read them together answers with what one
    /// shard held at one instant (of very many, at several); this default reads one after the other.
    ///
    /// # Errors
    ///
    /// When any of them cannot be read exactly.
    fn pending_all(
        &self,
        queries: &[PendingQuery],
    ) -> impl Future<Output = Result<Vec<Usd>, Self::Error>> + Send {
        async move {
            let mut amounts = Vec::with_capacity(queries.len());
            for query in queries {
                amounts.push(match query {
                    PendingQuery::Scope(scope) => self.pending(scope).await?,
                    PendingQuery::Organization { id, since } => self.pending_since(id, *since).await?,
                    PendingQuery::Key(id) => self.pending_key(id).await?,
                });
            }
            Ok(amounts)
        }
    }
}
