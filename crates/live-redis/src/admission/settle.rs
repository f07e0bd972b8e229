//! Correcting what an admission counted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use rate_plan::{Dimension, MAX_LIMIT, minute_of};

use super::answer::{SettleRefusal, Ticket};
use super::call::{Ask, Call};
use crate::error::{CallError, LiveRedisError};
use crate::{LiveRedis, script};

/// Sets the tickets of this process apart from those of all others.
static PROCESS: LazyLock<u64> = LazyLock::new(rand::random);
static NEXT_TICKET: AtomicU64 = AtomicU64::new(0);

impl LiveRedis {
    /// Replaces the estimate of an admitted request by what it has really used, in the minute in which it was
    /// admitted and in no other. `actual_tokens` may be above or below the estimate.
    ///
    /// Idempotent: a ticket is settled or refunded once, whichever replica asks, so the answer to a time-out is to
    /// ask again.
    ///
    /// # Errors
    ///
    /// [`LiveRedisError::Settle`] when there is nothing to correct; no counter has changed then. Other errors as
    /// [`LiveRedis::admit_rate_plan`].
    pub async fn settle(&self, ticket: &Ticket, actual_tokens: u64) -> Result<(), LiveRedisError> {
        if actual_tokens > MAX_LIMIT {
            return Err(SettleRefusal::TooLarge.into());
        }
        // Both are below 2^53.
        let tokens = actual_tokens.cast_signed() - ticket.tokens.cast_signed();
        self.strictly("settle", self.correct(ticket, 0, tokens)).await
    }

    /// Gives an admission back that was not used: the request and its estimate, in its minute, on every level.
    ///
    /// # Errors
    ///
    /// As [`LiveRedis::settle`].
    pub async fn refund(&self, ticket: &Ticket) -> Result<(), LiveRedisError> {
        self.strictly("refund", self.correct(ticket, -1, -ticket.tokens.cast_signed())).await
    }

    async fn correct(&self, ticket: &Ticket, requests: i64, tokens: i64) -> Result<(), LiveRedisError> {
        if ticket.issuer != self.shared.issuer {
            return Err(SettleRefusal::Foreign.into());
        }
        if ticket.plan.path().is_empty() {
            return Ok(());
        }
        let ask = Ask { plan: ticket.plan.clone(), estimate: ticket.tokens.cast_signed() };
        let call = Call::new(std::slice::from_ref(&ask))?;
        let shard = self.shard_count().shard_of(&ticket.partition);
        let keys = self.shared.options.prefix.shard(shard);
        let mut invocation = script::SETTLE.key(keys.rate(ticket.minute, &ticket.partition));
        invocation.key(keys.settled(ticket.minute, &ticket.partition));
        call.settle_arguments(&mut invocation, &ticket.id, requests, tokens);
        match self.hot_script::<i64>(&invocation).await? {
            1 => Ok(()),
            0 => Err(SettleRefusal::Repeated.into()),
            -1 => Err(SettleRefusal::Expired.into()),
            -2 => Err(SettleRefusal::Unknown.into()),
            other => Err(CallError::Answer(format!("settling answered {other}")).into()),
        }
    }

    pub(super) fn ticket(&self, partition: &str, second: i64, ask: Ask) -> Ticket {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&PROCESS.to_be_bytes());
        id[8..].copy_from_slice(&NEXT_TICKET.fetch_add(1, Ordering::Relaxed).to_be_bytes());
        Ticket {
            partition: partition.into(),
            minute: minute_of(second),
            tokens: Dimension::Tpm.demand(ask.estimate),
            plan: ask.plan,
            id,
            issuer: Arc::clone(&self.shared.issuer),
        }
    }
}
