//! What the flusher needs of a ledger.

use std::borrow::Cow;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use iam_ledger::{Batch, Committed, Ledger, LedgerError};
use spend_queue::{Entry, Epoch, Shard};
use thiserror::Error;
use tokio::task::JoinError;
use tokio::time::timeout;
use tracing::Instrument;

/// How long a commit may take, retries included. Far above what a healthy server needs for the largest batch: it is there for
/// a connection whose other end has vanished without closing it, on which no answer ever comes.
const COMMIT_WITHIN: Duration = Duration::from_secs(60);

/// What is to be committed together: entries of one shard, in the order of the queue. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Settlement {
    /// The history that the entries' numbers belong to.
    pub epoch: Epoch,
    /// Where they were peeked.
    pub shard: Shard,
    /// The entries, oldest first.
    pub entries: Arc<[Entry]>,
    /// The committer's clock. An event without any time counts as of now.
    pub committed_at: DateTime<Utc>,
}

/// A place where a batch is settled for good.
///
/// # What an implementation owes
///
/// Each request id counts once for ever, whatever batches it comes in, from whomever; and `Ok` means that it will still
/// be so after any crash. On an error the batch is settled or not, never in part: the caller runs it again.
pub trait SpendLedger: Clone + Send + Sync + 'static {
    /// What can go wrong.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Settles a batch.
    ///
    /// # Errors
    ///
    /// When the batch may not be settled; repeating the call is safe.
    fn commit(&self, settlement: Settlement) -> impl Future<Output = Result<Committed, Self::Error>> + Send;

    /// Whether the same call may succeed later without anybody mending anything.
    fn is_transient(error: &Self::Error) -> bool;

    /// Whether the commit took too long, or too much, so that a smaller batch may pass where this one never will.
    fn is_too_slow(_error: &Self::Error) -> bool {
        false
    }

    /// Whether the ledger is not there at the moment and may be in the next one: ask again soon.
    fn is_unavailable(_error: &Self::Error) -> bool {
        false
    }

    /// What kind of failure it is, for counting: few values, such as the class of a SQLSTATE; `none` when there is no answer to
    /// tell by.
    fn error_class(_error: &Self::Error) -> Cow<'static, str> {
        Cow::Borrowed(NO_CLASS)
    }
}

/// The class of an error that no server gave: a connection that broke or was never made, a time that ran out.
pub(crate) const NO_CLASS: &str = "none";

impl SpendLedger for Ledger {
    type Error = LedgerError;

    async fn commit(&self, settlement: Settlement) -> Result<Committed, LedgerError> {
        let Settlement { epoch, shard, entries, committed_at } = settlement;
        // On the heap: a transaction with its retries is a large future, which each of its callers would carry.
        Box::pin(Self::commit(self, &Batch { epoch: &epoch, shard, entries: &entries, committed_at })).await
    }

    fn is_transient(error: &LedgerError) -> bool {
        error.is_transient()
    }

    fn is_too_slow(error: &LedgerError) -> bool {
        error.is_too_slow()
    }

    fn is_unavailable(error: &LedgerError) -> bool {
        error.is_unavailable()
    }

    fn error_class(error: &LedgerError) -> Cow<'static, str> {
        error.sqlstate_class().map_or(Cow::Borrowed(NO_CLASS), Cow::Owned)
    }
}

/// A ledger whose commits run in a task of their own: dropping the caller's future never cancels a transaction half-way, and
/// never leaves a connection in doubt. One that takes longer than a minute is abandoned, so that a server that has vanished
/// does not stop a shard for ever. Needs a tokio runtime.
#[derive(Debug, Clone)]
pub struct Uncancelled<L>(pub L);

/// Why an uncancelled commit failed.
#[derive(Debug, Error)]
pub enum UncancelledError<E: std::error::Error + 'static> {
    /// The ledger did not commit, or its answer was lost.
    #[error("{0}")]
    Ledger(#[source] E),
    /// There was no answer in time; whether the batch is committed is unknown. Running it again is safe.
    #[error("no answer within {0:?}; the batch may be committed")]
    Silent(Duration),
    /// The task died; whether it had committed is unknown. Running the batch again is safe.
    #[error("the commit's task died: {0}")]
    Task(#[source] JoinError),
}

impl<L: SpendLedger> SpendLedger for Uncancelled<L> {
    type Error = UncancelledError<L::Error>;

    async fn commit(&self, settlement: Settlement) -> Result<Committed, Self::Error> {
        let ledger = self.0.clone();
        let commit = async move { timeout(COMMIT_WITHIN, ledger.commit(settlement)).await };
        let task = tokio::spawn(commit.in_current_span());
        match task.await.map_err(UncancelledError::Task)? {
            Ok(committed) => committed.map_err(UncancelledError::Ledger),
            Err(_) => Err(UncancelledError::Silent(COMMIT_WITHIN)),
        }
    }

    fn is_transient(error: &Self::Error) -> bool {
        match error {
            UncancelledError::Ledger(error) => L::is_transient(error),
            UncancelledError::Silent(_) | UncancelledError::Task(_) => true,
        }
    }

    fn is_too_slow(error: &Self::Error) -> bool {
        match error {
            UncancelledError::Ledger(error) => L::is_too_slow(error),
            UncancelledError::Silent(_) => true,
            UncancelledError::Task(_) => false,
        }
    }

    fn is_unavailable(error: &Self::Error) -> bool {
        matches!(error, UncancelledError::Ledger(error) if L::is_unavailable(error))
    }

    fn error_class(error: &Self::Error) -> Cow<'static, str> {
        match error {
            UncancelledError::Ledger(error) => L::error_class(error),
            UncancelledError::Silent(_) | UncancelledError::Task(_) => Cow::Borrowed(NO_CLASS),
        }
    }
}
