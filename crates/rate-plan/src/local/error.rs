//! Why a local limiter did not do what it was asked.

use crate::{MAX_LIMIT, UsageError};

/// A request that was not decided. Nothing was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LocalError {
    /// The request cannot be decided upon.
    #[error(transparent)]
    Usage(#[from] UsageError),
    /// The minute's counters are no longer kept, because a later minute has begun. A retry with the present time
    /// helps; if the clock had run ahead, only once it has caught up, or with a new limiter.
    #[error("minute {minute} is over; minutes from {oldest} on are kept")]
    MinutePassed {
        /// The minute that was asked for, since 1970.
        minute: i64,
        /// The oldest that is kept.
        oldest: i64,
    },
}

/// An admission that was neither settled nor refunded by this call. No counter has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettleError {
    /// The ticket was issued by another limiter. A retry cannot help.
    #[error("the ticket was issued by another limiter")]
    Foreign,
    /// The ticket was settled or refunded before, and that stands. A retry cannot help and is not needed.
    #[error("the ticket has been settled or refunded before")]
    Repeated,
    /// The minute of the admission is over and its counters are gone, so there is nothing to correct. A retry cannot
    /// help and is not needed.
    #[error("the counters of minute {minute} are no longer kept")]
    Expired {
        /// The minute of the admission, since 1970.
        minute: i64,
    },
    /// More tokens than can be counted. A retry cannot help.
    #[error("actual usage is {actual_tokens} tokens; at most {MAX_LIMIT} can be counted")]
    ActualTooLarge {
        /// What was given.
        actual_tokens: i64,
    },
    /// A counter has no room for the correction. The ticket stays open.
    #[error(transparent)]
    Usage(#[from] UsageError),
}
