//! Why nothing was held or released.

use std::time::Duration;

use chrono::{DateTime, Utc};
use spend_queue::{ScopeRef, TextProblem, Usd};
use thiserror::Error;

use super::{MAX_HOLD, MAX_HOLD_TTL, MIN_HOLD_TTL};
use crate::LedgerError;

/// A hold that was neither made nor answered. Nothing was written, except where [`LedgerError::OutcomeUnknown`] says that it
/// may have been.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HoldError {
    /// The request id breaks the rule for ids.
    #[error("request id {0}")]
    RequestId(TextProblem),
    /// The amount is not above zero, or above the bound.
    #[error("amount {0} USD; above 0 and at most {MAX_HOLD} USD is accepted")]
    Amount(Usd),
    /// The time to live is out of range.
    #[error("time to live {0:?}; {MIN_HOLD_TTL:?} to {MAX_HOLD_TTL:?} is accepted")]
    Ttl(Duration),
    /// The time is outside the years that the ledger keeps.
    #[error("time {0}; the years 1970 to 9999 are accepted")]
    Now(DateTime<Utc>),
    /// No table knows the subject.
    #[error("there is no {0}")]
    UnknownSubject(ScopeRef),
    /// The subject, or something above it, is blocked.
    #[error("{subject} may spend nothing: {blocked} is blocked")]
    Blocked {
        /// For whom money was to be held.
        subject: ScopeRef,
        /// Who is blocked.
        blocked: ScopeRef,
    },
    /// The request id holds something else already; that stays.
    #[error("request {request_id:?} holds {held} USD for {held_by}, not {amount} USD for {subject}")]
    Conflict {
        /// The request.
        request_id: String,
        /// For whom money is held.
        held_by: ScopeRef,
        /// How much of it.
        held: Usd,
        /// For whom it was to be held now.
        subject: ScopeRef,
        /// How much of it.
        amount: Usd,
    },
    /// The request's event was committed before, and it had no hold: the request has run.
    #[error("request {0:?} is settled already")]
    Settled(String),
    /// The same request id was held by others again and again between two looks. Ask again.
    #[error("request {0:?} was held by somebody else at the same time")]
    Contended(String),
    /// The ledger failed.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

impl HoldError {
    /// Whether the same call may succeed later without anybody mending anything.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Contended(_) => true,
            Self::Ledger(error) => error.is_transient(),
            _ => false,
        }
    }
}
