//! Planted bugs: mistakes that others made or that were nearly made here. The simulation must catch each one.

use core::fmt;
use core::str::FromStr;

use thiserror::Error;

macro_rules! bugs {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal,)+) => {
        /// A mistake that is planted into the models or into a flusher, to prove that it would be noticed.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Bug {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Bug {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// What `--plant` calls it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }
        }
    };
}

bugs! {
    /// A flusher acknowledges what it peeked, then commits it.
    AckBeforeCommit = "ack-before-commit",
    /// A flusher acknowledges a batch as soon as the one before it is off the queue, while it is still being committed.
    AckOvertakesCommit = "ack-overtakes-commit",
    /// A flusher takes a commit whose answer was lost for one that succeeded.
    AckUnknownCommit = "ack-unknown-commit",
    /// Peek takes the entries off, and the flusher holds them in its memory.
    DestructivePeek = "destructive-peek",
    /// Peek throws an unreadable head away, so that the shard goes on.
    SkipsCorrupt = "skips-corrupt",
    /// A batch goes on behind a place where the chain breaks.
    SpansBreak = "spans-break",
    /// An acknowledgement compares the first entry only (docs/decisions/0002).
    HeadOnlyAck = "head-only-ack",
    /// An acknowledgement compares the first and the last entry only.
    EndsOnlyAck = "ends-only-ack",
    /// An acknowledgement takes one entry more than the receipt names.
    AckOneMore = "ack-one-more",
    /// An acknowledgement takes one entry less than the receipt names, and all charges.
    AckOneLess = "ack-one-less",
    /// An acknowledgement leaves the counters as they are.
    CountersKept = "counters-kept",
    /// An acknowledgement takes charges off the counters twice.
    CountersTwice = "counters-twice",
    /// Enqueue remembers the request id, then appends; it may die between the two.
    MarkFirst = "mark-first",
    /// Remembered request ids lie on another server than the list, and survive its fail-over.
    MarksElsewhere = "marks-elsewhere",
    /// Enqueue does not look whether it knows the request id.
    NoDuplicateCheck = "no-duplicate-check",
    /// A producer retries under a new request id.
    RetryUnderNewId = "retry-under-new-id",
    /// The ledger settles whatever comes.
    NoUniqueGuard = "no-unique-guard",
    /// The ledger looks up which ids are settled when a transaction begins, and believes it until the commit.
    StaleGuard = "stale-guard",
    /// The ledger writes the guard in a transaction of its own, before the sums.
    HalfCommit = "half-commit",
    /// The ledger lets the last payload of a request id win, and charges it too.
    LastPayloadWins = "last-payload-wins",
    /// The ledger does not settle what is free or unpriced.
    FreeEventsIgnored = "free-events-ignored",
    /// An index is made anew from the entries that can be read, and counts as proven.
    ReindexIgnoresForeign = "reindex-ignores-foreign",
    /// Quarantine takes off whatever is the head by now.
    QuarantineUnchecked = "quarantine-unchecked",
    /// A flusher that meets an unreadable entry behind sound ones waits for the operator with all of them.
    WaitsBehindCorrupt = "waits-behind-corrupt",
}

/// A text that names no planted bug.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("there is no planted bug {0:?}; there are: {names}", names = names())]
pub struct ParseBugError(pub String);

fn names() -> String {
    Bug::ALL.iter().map(|bug| bug.name()).collect::<Vec<_>>().join(", ")
}

impl FromStr for Bug {
    type Err = ParseBugError;

    fn from_str(text: &str) -> Result<Self, ParseBugError> {
        Self::ALL.iter().copied().find(|bug| bug.name() == text).ok_or_else(|| ParseBugError(text.to_owned()))
    }
}

impl fmt::Display for Bug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_read_back() {
        for bug in Bug::ALL {
            assert_eq!(bug.name().parse(), Ok(*bug));
        }
        assert!("nonsense".parse::<Bug>().unwrap_err().to_string().contains("head-only-ack"));
    }
}
