//! What the queue of an older deployment adds to strict reads.

use redis::{FromRedisValue, Value};
use spend_queue::{Millis, ORGANIZATION, Usd};

use super::asked::Asked;
use crate::error::{CallError, LiveRedisError};
use crate::queue::unexpected;
use crate::{LiveRedis, script};

impl LiveRedis {
    /// What the queue of an older deployment charges, for each query; zeros, and nothing is sent, where there is none.
    pub(super) async fn in_older_queue(&self, asked: &[Asked]) -> Result<Vec<Usd>, LiveRedisError> {
        let mut amounts = vec![Usd::ZERO; asked.len()];
        let Some(older) = &self.shared.options.older_queue else { return Ok(amounts) };
        let mut call = script::PENDING_OLDER.key(older.list());
        call.arg(self.shared.options.scan_bound);
        let mut named = Vec::new();
        for (amount, asked) in amounts.iter_mut().zip(asked) {
            if let Some(field) = owner_field(asked.scope.kind()) {
                call.arg(field).arg(asked.scope.id()).arg(u8::from(asked.since.is_some()));
                named.push((amount, asked.since));
            }
        }
        if named.is_empty() {
            return Ok(amounts);
        }
        let (_, groups) = self.wide_script::<(u64, Vec<Vec<Value>>)>(&call).await?;
        if groups.len() != named.len() {
            let text = format!("the older queue has {} amounts for {} owners", groups.len(), named.len());
            return Err(CallError::Answer(text).into());
        }
        for ((amount, since), groups) in named.into_iter().zip(&groups) {
            *amount = charged(groups, since)?;
        }
        Ok(amounts)
    }
}

/// The field by which an entry of format 1 names its owner of a kind.
fn owner_field(kind: &str) -> Option<&'static str> {
    match kind {
        ORGANIZATION => Some("org_id"),
        "team" => Some("team_id"),
        "user" => Some("user_id"),
        "key" => Some("key_id"),
        _ => None,
    }
}

/// The sum of the groups of one owner: digits, start and number of entries in turn.
fn charged(groups: &[Value], since: Option<Millis>) -> Result<Usd, LiveRedisError> {
    let mut total = Usd::ZERO;
    for group in groups.chunks(3) {
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

/// Whether an entry of an older deployment started before an instant, by the rule by which the flusher reads its start: one
/// that is missing or malformed counts as current.
fn started_before(start: &str, since: Millis) -> bool {
    spend_queue::older_start(start).is_some_and(|start| Millis::of(start) < since)
}
