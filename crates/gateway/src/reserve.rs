//! Steps 3 to 5 together: what a call has taken before it runs, to be given back if it does not.

use axum::http::HeaderMap;
use live_redis::{LiveRedisError, SettleRefusal, Ticket};

use crate::call::Call;
use crate::error::ApiError;
use crate::{admit, budget, idempotency};

/// What was taken for a call. It must be given back or settled.
#[derive(Debug, Default)]
pub(crate) struct Reserved {
    claimed: bool,
    held: bool,
    ticket: Option<Ticket>,
}

impl Reserved {
    /// Claims the id, covers the cost and counts the request, in this order or the last two at once; what was taken before one
    /// of them failed is given back.
    pub(crate) async fn take(call: &Call, told: &mut HeaderMap) -> Result<Self, ApiError> {
        let mut reserved = Self::default();
        match reserved.fill(call, told).await {
            Ok(()) => Ok(reserved),
            Err(error) => {
                reserved.give_back(call).await;
                Err(error)
            }
        }
    }

    async fn fill(&mut self, call: &Call, told: &mut HeaderMap) -> Result<(), ApiError> {
        self.claimed = idempotency::claim(call).await?;
        if budget::is_likely(call) {
            // Both at once, which is a round trip less. Only then: a key without money must not use up, for a moment each time, what
            // others may do in this minute.
            let mut limits = HeaderMap::new();
            let (covered, admitted) = tokio::join!(budget::cover(call), admit::admit(call, &mut limits));
            let admitted = admitted.map(|ticket| self.ticket = ticket);
            self.held = covered?;
            told.extend(limits);
            return admitted;
        }
        self.held = budget::cover(call).await?;
        self.ticket = admit::admit(call, told).await?;
        Ok(())
    }

    /// The call did not run: nothing of it stays counted, held or claimed.
    pub(crate) async fn give_back(self, call: &Call) {
        if self.claimed {
            idempotency::give_up(call).await;
        }
        if self.held {
            budget::release(call).await;
        }
        if let Some(ticket) = self.ticket {
            corrected("refund", call, call.state.redis.refund(&ticket).await);
        }
    }

    /// The call took so many tokens. Its claim stays, and what was held is settled by its bill.
    pub(crate) async fn settle(self, call: &Call, tokens: u64) {
        if let Some(ticket) = self.ticket {
            corrected("settle", call, call.state.redis.settle(&ticket, tokens).await);
        }
    }
}

/// What could not be corrected stays counted as estimated until its minute is over: too much, never too little.
fn corrected(what: &'static str, call: &Call, result: Result<(), LiveRedisError>) {
    match result {
        Ok(()) | Err(LiveRedisError::Settle(SettleRefusal::Expired | SettleRefusal::Repeated)) => {}
        Err(error) => {
            tracing::warn!(request_id = call.id.as_str(), what, %error, "an estimate stays counted");
        }
    }
}
