//! What an admission by a local limiter is answered with.

use core::sync::atomic::{AtomicBool, Ordering};

use crate::{Decision, RatePlan};

/// A decision, and the ticket of the admission if it is one.
#[derive(Debug)]
#[must_use = "a request that is not known to be admitted must not run"]
pub struct LocalAdmission {
    decision: Decision,
    ticket: Option<Ticket>,
}

impl LocalAdmission {
    pub(super) const fn new(decision: Decision, ticket: Option<Ticket>) -> Self {
        Self { decision, ticket }
    }

    /// The decision.
    pub const fn decision(&self) -> &Decision {
        &self.decision
    }

    /// Whether the request may run.
    #[must_use]
    pub const fn is_admitted(&self) -> bool {
        self.decision.is_admitted()
    }

    /// The ticket; `None` for a rejection.
    #[must_use]
    pub const fn ticket(&self) -> Option<&Ticket> {
        self.ticket.as_ref()
    }

    /// The ticket, to be kept until the request has finished; `None` for a rejection.
    #[must_use]
    pub fn into_ticket(self) -> Option<Ticket> {
        self.ticket
    }

    /// Seconds until the next minute, 1 to 60, if the request was refused and that minute may admit it.
    #[must_use]
    pub const fn retry_after(&self, unix_seconds: i64) -> Option<u64> {
        self.decision.retry_after(unix_seconds)
    }
}

/// One admission, good for one [`settle`](crate::LocalLimiter::settle) or [`refund`](crate::LocalLimiter::refund).
///
/// Only a limiter makes tickets and there is one for each admission. One that is dropped leaves the estimate counted.
#[derive(Debug)]
pub struct Ticket {
    limiter: u64,
    minute: i64,
    plan: RatePlan,
    estimate: u64,
    /// Read and written under the limiter's lock.
    closed: AtomicBool,
}

impl Ticket {
    pub(super) const fn new(limiter: u64, minute: i64, plan: RatePlan, estimate: u64) -> Self {
        Self { limiter, minute, plan, estimate, closed: AtomicBool::new(false) }
    }

    /// The minute that the request is counted in, since 1970.
    #[must_use]
    pub const fn minute(&self) -> i64 {
        self.minute
    }

    /// The tokens that were counted, 0 to [`MAX_LIMIT`](crate::MAX_LIMIT).
    #[must_use]
    pub const fn estimate(&self) -> u64 {
        self.estimate
    }

    pub(super) const fn limiter(&self) -> u64 {
        self.limiter
    }

    pub(super) const fn plan(&self) -> &RatePlan {
        &self.plan
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    pub(super) fn set_closed(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }
}
