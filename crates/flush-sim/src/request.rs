//! What goes over the simulated network.

use std::collections::BTreeSet;

use iam_ledger::Committed;
use spend_queue::{
    Acked, BatchLimit, EncodedEvent, Enqueued, MemoryQueueError, Peeked, QueueError, Receipt, Reindexed,
    Shard, Stop,
};
use thiserror::Error;
use usage_flusher::Settlement;

use crate::tally::Call;

/// A call on its way.
#[derive(Debug, Clone)]
pub(crate) enum Request {
    Enqueue(EncodedEvent),
    Peek(Shard, BatchLimit),
    Ack(Receipt),
    Reindex(Shard),
    Depth(Shard),
    Quarantine(Shard, Vec<u8>),
    Commit {
        settlement: Settlement,
        /// What was settled when the transaction began; only for [`crate::Bug::StaleGuard`].
        known: Option<BTreeSet<String>>,
    },
}

/// What a call that had its effect answers.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    Enqueued(Enqueued),
    Peeked(Box<Peeked>),
    Acked(Acked),
    Reindexed(Reindexed),
    Depth(u64),
    Quarantined(bool),
    Committed(Committed),
}

/// Why a call failed, as far as its caller can tell.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum CallError {
    /// Whether it had its effect is unknown.
    #[error("no answer; whether it took effect is unknown")]
    NoAnswer,
    /// It had none.
    #[error("refused for the sake of another transaction")]
    Serialization,
    /// It had none.
    #[error("{0}")]
    Queue(#[from] MemoryQueueError),
}

impl QueueError for CallError {
    fn is_transient(&self) -> bool {
        match self {
            Self::NoAnswer | Self::Serialization => true,
            Self::Queue(error) => error.is_transient(),
        }
    }
}

impl Request {
    pub(crate) const fn call(&self) -> Call {
        match self {
            Self::Enqueue(_) => Call::Enqueue,
            Self::Peek(..) => Call::Peek,
            Self::Ack(_) => Call::Ack,
            Self::Reindex(_) => Call::Reindex,
            Self::Depth(_) => Call::Depth,
            Self::Quarantine(..) => Call::Quarantine,
            Self::Commit { .. } => Call::Commit,
        }
    }

    /// For the trace.
    pub(crate) fn show(&self) -> String {
        match self {
            Self::Enqueue(event) => format!("enqueue {}", event.request_id()),
            Self::Peek(shard, limit) => format!("peek {limit} of shard {shard}"),
            Self::Ack(receipt) => format!("ack {} of shard {}", span(receipt), receipt.shard),
            Self::Reindex(shard) => format!("reindex shard {shard}"),
            Self::Depth(shard) => format!("depth of shard {shard}"),
            Self::Quarantine(shard, raw) => format!("quarantine {:?} of shard {shard}", text(raw)),
            Self::Commit { settlement, .. } => {
                let ids: Vec<_> =
                    settlement.entries.iter().map(|entry| entry.event.request_id.as_str()).collect();
                format!("commit [{}] of shard {}", ids.join(" "), settlement.shard)
            }
        }
    }
}

impl Reply {
    /// For the trace.
    pub(crate) fn show(&self) -> String {
        match self {
            Self::Peeked(peeked) => {
                let ids: Vec<_> =
                    peeked.entries.iter().map(|entry| entry.event.request_id.as_str()).collect();
                format!(
                    "[{}] of {}, index {:?}{}",
                    ids.join(" "),
                    peeked.depth,
                    peeked.index,
                    peeked.stop.as_ref().map(ends).unwrap_or_default()
                )
            }
            Self::Enqueued(outcome) => format!("{outcome:?}"),
            Self::Acked(outcome) => format!("{outcome:?}"),
            Self::Reindexed(outcome) => format!("{outcome:?}"),
            Self::Depth(depth) => depth.to_string(),
            Self::Quarantined(taken) => taken.to_string(),
            Self::Committed(Committed { new, duplicates, conflicts, cost, .. }) => {
                format!("new {new}, duplicates {duplicates}, conflicts {conflicts:?}, {cost} USD")
            }
        }
    }
}

fn span(receipt: &Receipt) -> String {
    match receipt.seqs {
        Some((first, last)) => format!("{} ({first}..{last})", receipt.entries),
        None => receipt.entries.to_string(),
    }
}

fn ends(stop: &Stop) -> String {
    match stop {
        Stop::Corrupt { position, raw, error } => format!(", ends at {position}: {:?}: {error}", text(raw)),
        other => format!(", ends: {other:?}"),
    }
}

/// The first bytes of something, readable.
pub(crate) fn text(raw: &[u8]) -> String {
    String::from_utf8_lossy(&raw[..raw.len().min(40)]).into_owned()
}
