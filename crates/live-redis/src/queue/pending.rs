//! Strict reads of pending spend.

use std::future::Future;

use chrono::{DateTime, Utc};
use futures_util::future::try_join_all;
use redis::{FromRedisValue, ScriptInvocation, Value};
use spend_queue::{Millis, ORGANIZATION, PendingSpend, ScopeRef, Shard, Start, Usd};

use super::unexpected;
use crate::error::{CallError, LiveRedisError};
use crate::{LiveRedis, input, script};

impl LiveRedis {
    async fn pending_of(&self, scope: &ScopeRef) -> Result<Usd, LiveRedisError> {
        let here = self.in_all_shards(|shard| {
            let mut call = script::PENDING.prepare_invoke();
            self.key_index(&mut call, shard);
            call.arg(scope.to_string()).arg(self.shared.options.scan_bound);
            call
        });
        let (here, older) = tokio::try_join!(here, self.pending_in_older(scope, None))?;
        sum([here, older], scope)
    }

    async fn pending_of_organization(
        &self,
        organization_id: &str,
        instant: DateTime<Utc>,
    ) -> Result<Usd, LiveRedisError> {
        input::id("organization_id", organization_id)?;
        let scope = ScopeRef::new(ORGANIZATION, organization_id)
            .map_err(|error| LiveRedisError::Damaged(error.to_string()))?;
        let since = Millis::of(instant);
        let here = self.in_all_shards(|shard| {
            let mut call = script::PENDING_SINCE.prepare_invoke();
            self.key_index(&mut call, shard);
            call.arg(scope.to_string()).arg(self.shared.options.scan_bound);
            for at in [Millis::EPOCH, since] {
                call.arg(Start::new(organization_id, at).to_string());
            }
            call.arg(since.get());
            call
        });
        let (here, older) = tokio::try_join!(here, self.pending_in_older(&scope, Some(since)))?;
        sum([here, older], &scope)
    }

    /// The sum of what each shard answers.
    async fn in_all_shards<'a>(
        &self,
        call: impl Fn(Shard) -> ScriptInvocation<'a>,
    ) -> Result<Usd, LiveRedisError> {
        let calls: Vec<_> = self.shard_count().iter().map(call).collect();
        let answers = try_join_all(calls.iter().map(|call| self.hot_script::<(String, u64)>(call))).await?;
        let mut total = Usd::ZERO;
        for (picos, gone_through) in answers {
            if gone_through > 0 {
                metrics::counter!("tollgate_redis_index_scans_total").increment(1);
            }
            let amount = picos.parse().map(Usd::from_picos);
            let amount = amount.map_err(|_| CallError::Answer(format!("pending spend is {picos:?}")))?;
            total = total
                .checked_add(amount)
                .ok_or_else(|| CallError::Answer("pending spend overflows".into()))?;
        }
        Ok(total)
    }

    /// What the queue of an older deployment charges to a scope, since an instant or at all.
    async fn pending_in_older(&self, scope: &ScopeRef, since: Option<Millis>) -> Result<Usd, LiveRedisError> {
        let field = match scope.kind() {
            ORGANIZATION => "org_id",
            "team" => "team_id",
            "user" => "user_id",
            "key" => "key_id",
            _ => return Ok(Usd::ZERO),
        };
        let Some(older) = &self.shared.options.older_queue else { return Ok(Usd::ZERO) };
        let mut call = script::PENDING_OLDER.key(older.list());
        call.arg(field).arg(scope.id()).arg(u8::from(since.is_some())).arg(self.shared.options.scan_bound);
        let answer = self.wide_script::<Vec<Value>>(&call).await?;
        let mut total = Usd::ZERO;
        for group in answer.get(1..).unwrap_or_default().chunks(3) {
            let [digits, start, count] = group else {
                return Err(CallError::Answer("a group of the older queue is cut".into()).into());
            };
            let text =
                |value: &Value| String::from_redis_value(value.clone()).map_err(|error| unexpected(&error));
            let (digits, start) = (text(digits)?, text(start)?);
            let count = u64::from_redis_value(count.clone()).map_err(|error| unexpected(&error))?;
            // What cannot be read is an error whenever it started.
            let amount = Usd::nearest(&digits).ok().filter(|(amount, _)| amount.counter().is_ok());
            let amount = amount.and_then(|(amount, _)| amount.checked_mul(count));
            let past = since.is_some_and(|since| started_before(&start, since));
            total = amount
                .map(|amount| if past { Usd::ZERO } else { amount })
                .and_then(|amount| total.checked_add(amount))
                .ok_or_else(|| LiveRedisError::Damaged(format!("spend {digits:?} in the older queue")))?;
        }
        Ok(total)
    }
}

/// Whether an entry of an older deployment started before an instant, by the rule by which the flusher reads its start: one
/// that is missing or malformed counts as current.
fn started_before(start: &str, since: Millis) -> bool {
    spend_queue::older_start(start).is_some_and(|start| Millis::of(start) < since)
}

fn sum(amounts: [Usd; 2], scope: &ScopeRef) -> Result<Usd, LiveRedisError> {
    Usd::checked_sum(amounts)
        .ok_or_else(|| LiveRedisError::Damaged(format!("pending spend of {scope} overflows")))
}

impl PendingSpend for LiveRedis {
    type Error = LiveRedisError;

    fn pending(&self, scope: &ScopeRef) -> impl Future<Output = Result<Usd, Self::Error>> + Send {
        self.strictly("pending", self.pending_of(scope))
    }

    fn pending_since(
        &self,
        organization_id: &str,
        instant: DateTime<Utc>,
    ) -> impl Future<Output = Result<Usd, Self::Error>> + Send {
        self.strictly("pending_since", self.pending_of_organization(organization_id, instant))
    }

    async fn pending_key(&self, key_id: &str) -> Result<Usd, Self::Error> {
        input::id("key_id", key_id)?;
        let scope =
            ScopeRef::new("key", key_id).map_err(|error| LiveRedisError::Damaged(error.to_string()))?;
        self.strictly("pending_key", self.pending_of(&scope)).await
    }
}
