//! Why a step of the hand-off did not finish.

use spend_queue::{EntryError, QueueError, Shard};
use thiserror::Error;

use crate::ledger::SpendLedger;

/// Why a step did not finish. Nothing is lost: the entries are still queued.
#[derive(Debug, Error)]
pub enum FlushError<Q: QueueError, L: std::error::Error + 'static> {
    /// The queue could not be read.
    #[error("peek: {0}")]
    Peek(#[source] Q),
    /// The ledger did not commit, or its answer was lost.
    #[error("commit: {0}")]
    Commit(#[source] L),
    /// The batch is committed, and its acknowledgement failed or was lost.
    #[error("acknowledge (the batch is committed): {0}")]
    Ack(#[source] Q),
    /// The head of the shard is no entry. An operator must look; the other shards go on.
    #[error("the head of shard {shard} cannot be read: {error}")]
    CorruptHead {
        /// The shard that stands still.
        shard: Shard,
        /// What is wrong with its head.
        error: EntryError,
    },
}

impl<Q: QueueError, L: std::error::Error + 'static> FlushError<Q, L> {
    /// Whether the next step may succeed without anybody mending anything.
    pub fn is_transient<S: SpendLedger<Error = L>>(&self) -> bool {
        match self {
            Self::Peek(error) | Self::Ack(error) => error.is_transient(),
            Self::Commit(error) => S::is_transient(error),
            Self::CorruptHead { .. } => false,
        }
    }

    /// The name of what failed, for spans: low in number, as `error.type` must be.
    pub(crate) const fn step(&self) -> &'static str {
        match self {
            Self::Peek(_) => "peek",
            Self::Commit(_) => "commit",
            Self::Ack(_) => "acknowledge",
            Self::CorruptHead { .. } => "corrupt_head",
        }
    }
}
