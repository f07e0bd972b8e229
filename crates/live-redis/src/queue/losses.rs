//! Numbers that left a shard's queue without an acknowledgement: recorded before anything that shows it is set back, and never
//! removed.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use redis::{FromRedisValue, Value};
use serde::{Deserialize, Serialize};
use spend_queue::{Millis, Shard, Usd};

use super::quarantine::OperatorNote;
use super::unexpected;
use crate::error::{CallError, LiveRedisError};
use crate::{LiveRedis, input, script};

/// Entries that are neither settled nor pending: another hand took them off the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// Its place in the shard's list of losses, 0 for the oldest.
    pub place: u64,
    /// Number of the first entry.
    pub first: u64,
    /// Number of the last entry.
    pub last: u64,
    /// How many entries of this range were still there, and so are not lost.
    pub present: u64,
    /// Which script found it: `enqueue`, `ack`, `reindex` or `quarantine`.
    pub found_by: String,
    /// When it was found, by the server's clock.
    pub at: DateTime<Utc>,
    /// What was charged to the lost entries, by kind of scope. Kinds overlap: an event charges several. `None` when the counters
    /// could not be read.
    pub pending: Option<BTreeMap<String, Usd>>,
    /// Who dealt with it and why it is no open matter any more.
    pub acknowledged: Option<OperatorNote>,
    item: Vec<u8>,
}

/// An item as it is kept.
#[derive(Debug, Serialize, Deserialize)]
struct Item {
    first: u64,
    last: u64,
    present: u64,
    found_by: String,
    at: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pending: Option<BTreeMap<String, String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    acknowledged: Option<OperatorNote>,
}

impl Loss {
    /// How many entries are lost.
    #[must_use]
    pub const fn entries(&self) -> u64 {
        (self.last + 1).saturating_sub(self.first).saturating_sub(self.present)
    }

    fn read(place: u64, bytes: Vec<u8>) -> Result<Self, LiveRedisError> {
        let damaged = || LiveRedisError::Damaged(format!("item {place} of the recorded losses is no record"));
        let item: Item = serde_json::from_slice(&bytes).map_err(|_| damaged())?;
        let sum = |(kind, picos): (String, String)| {
            picos.parse().map(|picos: i128| (kind, Usd::from_picos(picos))).map_err(|_| damaged())
        };
        let pending = item.pending.map(|pending| pending.into_iter().map(sum).collect()).transpose()?;
        let at = Millis::new(item.at).ok_or_else(damaged)?.instant();
        Ok(Self {
            place,
            first: item.first,
            last: item.last,
            present: item.present,
            found_by: item.found_by,
            at,
            pending,
            acknowledged: item.acknowledged,
            item: bytes,
        })
    }
}

impl LiveRedis {
    /// What was found to be lost in a shard, oldest first, at most `most`, acknowledged or not.
    ///
    /// # Errors
    ///
    /// When it cannot be read; [`LiveRedisError::Damaged`] when an item is no record.
    pub async fn losses(&self, shard: Shard, most: u32) -> Result<Vec<Loss>, LiveRedisError> {
        self.strictly("losses", self.read_losses(shard, most)).await
    }

    pub(super) async fn read_losses(&self, shard: Shard, most: u32) -> Result<Vec<Loss>, LiveRedisError> {
        let mut read = redis::cmd("LRANGE");
        read.arg(self.shared.options.prefix.shard(shard).lost()).arg(0).arg(i64::from(most) - 1);
        let items = self.wide::<Vec<Value>>(&read).await?.into_iter();
        let items = items.map(|item| Vec::<u8>::from_redis_value(item).map_err(|error| unexpected(&error)));
        (0..).zip(items).map(|(place, item)| Loss::read(place, item?)).collect()
    }

    /// Marks a loss as dealt with; answers whether it was still the one that was looked at. The record stays.
    ///
    /// # Errors
    ///
    /// When it may not have been marked; repeating the call is safe.
    pub async fn acknowledge_loss(
        &self,
        shard: Shard,
        loss: &Loss,
        note: &OperatorNote,
    ) -> Result<bool, LiveRedisError> {
        input::id("reason", &note.reason)?;
        let answer = |error: serde_json::Error| CallError::Answer(error.to_string());
        let mut item: Item = serde_json::from_slice(&loss.item).map_err(answer)?;
        item.acknowledged = Some(note.clone());
        let marked = serde_json::to_string(&item).map_err(answer)?;
        let mut call = script::ACKNOWLEDGE_ITEM.prepare_invoke();
        call.key(self.shared.options.prefix.shard(shard).lost());
        call.arg(loss.place).arg(&loss.item[..]).arg(marked);
        self.strictly("acknowledge_loss", async { Ok(self.wide_script::<u64>(&call).await? == 1) }).await
    }
}
