//! What an admission is answered with, and what is done with it afterwards.

use std::fmt;
use std::sync::Arc;

use rate_plan::{Decision, RatePlan, Rejection, minute_of};
use thiserror::Error;

/// A decision, the minute that it was made in, and the ticket of an admission.
#[derive(Debug)]
#[must_use = "a request that is not known to be admitted must not run"]
pub struct Admission {
    pub(crate) decision: Decision,
    pub(crate) second: i64,
    pub(crate) ticket: Option<Ticket>,
}

impl Admission {
    /// The decision: usage and headroom, or which limit refused and why.
    pub const fn decision(&self) -> &Decision {
        &self.decision
    }

    /// The decision alone; a ticket is dropped, so what was counted stays counted.
    pub fn into_decision(self) -> Decision {
        self.decision
    }

    /// Whether the request may run.
    #[must_use]
    pub const fn is_admitted(&self) -> bool {
        self.decision.is_admitted()
    }

    /// The limit that refused, if one did.
    #[must_use]
    pub const fn rejection(&self) -> Option<&Rejection> {
        self.decision.rejection()
    }

    /// The UTC minute whose counters decided, since 1970.
    #[must_use]
    pub const fn minute(&self) -> i64 {
        minute_of(self.second)
    }

    /// Seconds until the next minute, 1 to 60, if the request was refused and that minute may admit it; `None`
    /// when it was admitted, or can never fit.
    #[must_use]
    pub const fn retry_after(&self) -> Option<u64> {
        self.decision.retry_after(self.second)
    }

    /// Names and values of response headers: `x-ratelimit-*`, `retry-after`, and the IETF fields.
    #[must_use]
    pub fn response_headers(&self) -> Vec<(&'static str, String)> {
        rate_plan::response_headers(&self.decision, self.second)
    }

    /// The ticket of an admission, to settle or refund it with.
    #[must_use]
    pub const fn ticket(&self) -> Option<&Ticket> {
        self.ticket.as_ref()
    }

    /// The ticket, to be kept until the request has finished.
    #[must_use]
    pub fn into_ticket(self) -> Option<Ticket> {
        self.ticket
    }
}

/// One admission, good for one [`settle`](crate::LiveRedis::settle) or [`refund`](crate::LiveRedis::refund).
///
/// Only an admission makes tickets. One that is dropped leaves the estimate counted until its minute is over.
pub struct Ticket {
    pub(super) plan: RatePlan,
    pub(super) partition: Box<str>,
    pub(super) minute: i64,
    pub(super) tokens: u64,
    pub(super) id: [u8; 16],
    /// Prefix and shard count of the deployment that issued it.
    pub(super) issuer: Arc<str>,
}

impl Ticket {
    /// The minute that the request is counted in, since 1970.
    #[must_use]
    pub const fn minute(&self) -> i64 {
        self.minute
    }

    /// The tokens that were counted for it, 0 to 2^53-1.
    #[must_use]
    pub const fn estimate(&self) -> u64 {
        self.tokens
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket")
            .field("id", &hex::encode(self.id))
            .field("partition", &self.partition)
            .field("minute", &self.minute)
            .field("tokens", &self.tokens)
            .finish_non_exhaustive()
    }
}

/// Why a ticket was not settled or refunded by this call. No counter has changed; a retry cannot help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SettleRefusal {
    /// The ticket was issued under another key prefix or shard count.
    #[error("the ticket was issued by another deployment")]
    Foreign,
    /// The ticket was settled or refunded before, and that stands.
    #[error("the ticket has been settled or refunded before")]
    Repeated,
    /// The minute of the admission is over and its counters are gone, so there is nothing to correct.
    #[error("the counters of the ticket's minute are no longer kept")]
    Expired,
    /// The counters have less than the ticket counted: they never saw it, or Redis has lost what it saw.
    #[error("the counters of the ticket's minute never counted it")]
    Unknown,
    /// More tokens than a counter holds.
    #[error("actual usage is above 2^53-1 tokens")]
    TooLarge,
}
