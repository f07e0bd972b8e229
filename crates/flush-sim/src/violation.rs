//! What must never happen.

use core::fmt;

use thiserror::Error;

/// A promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// Nothing is taken off a queue that is not committed.
    NothingUncommittedTrimmed,
    /// Nothing is charged twice, or otherwise than its first settled payload says.
    ChargedOnce,
    /// What was accepted is in the queue or in the ledger, unless a fail-over or another hand is known to have taken it.
    NothingLost,
    /// A request id is queued once: the same payload again is a duplicate, another one a conflict.
    FirstPayloadWins,
    /// Entries are numbered without gaps and linked, and a batch has an unbroken chain.
    ChainUnbroken,
    /// A strict read is the sum of what is in the list, or an error.
    PendingExact,
    /// A call does what its contract and its answer say, and nothing else.
    CallsDoWhatTheySay,
    /// Only what somebody sent is settled.
    NothingInvented,
    /// Once the faults stop, everything is drained within a bound.
    Drains,
}

/// A promise that was broken.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{rule}: {detail}")]
pub struct Violation {
    /// Which one.
    pub rule: Rule,
    /// How.
    pub detail: String,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::NothingUncommittedTrimmed => "nothing is trimmed that is not committed",
            Self::ChargedOnce => "everything is charged once",
            Self::NothingLost => "nothing is lost",
            Self::FirstPayloadWins => "the first payload wins",
            Self::ChainUnbroken => "the chain is unbroken",
            Self::PendingExact => "pending is exact or an error",
            Self::CallsDoWhatTheySay => "calls do what they say",
            Self::NothingInvented => "nothing is invented",
            Self::Drains => "everything drains",
        })
    }
}

/// `Ok` when a promise holds.
pub(crate) fn must(holds: bool, rule: Rule, detail: impl FnOnce() -> String) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation { rule, detail: detail() }) }
}
