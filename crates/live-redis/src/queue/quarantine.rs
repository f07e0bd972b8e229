//! What an operator takes off the head of a shard, because it cannot be settled: kept aside with its reason, never dropped.

use chrono::{DateTime, Utc};
use redis::{FromRedisValue, Value};
use serde::{Deserialize, Serialize};
use spend_queue::Shard;

use super::unexpected;
use crate::error::{CallError, LiveRedisError};
use crate::{LiveRedis, input, script};

/// Why and when an operator did something that others find later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorNote {
    /// In an operator's words: 1 to 128 bytes, no control character.
    pub reason: String,
    /// When, by the operator's clock.
    pub at: DateTime<Utc>,
}

/// Something that was moved aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quarantined {
    /// Its place in the shard's quarantine, 0 for the oldest.
    pub place: u64,
    /// Its number in the queue; `None` when nobody can tell it.
    pub seq: Option<u64>,
    /// Why and when; `None` when another hand wrote it.
    pub note: Option<OperatorNote>,
    /// Who dealt with it and how, so that it is no open matter any more.
    pub acknowledged: Option<OperatorNote>,
    /// The entry, byte for byte.
    pub raw: Vec<u8>,
    item: Vec<u8>,
}

/// The line before an entry that was moved aside.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Line {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
    #[serde(flatten)]
    note: Option<OperatorNote>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    acknowledged: Option<OperatorNote>,
}

impl Quarantined {
    /// What has no such line was written by another hand, and is kept whole.
    fn read(place: u64, item: Vec<u8>) -> Self {
        let cut = item.iter().position(|byte| *byte == b'\n');
        let line = cut.and_then(|cut| serde_json::from_slice::<Line>(&item[..cut]).ok());
        let raw = match (&line, cut) {
            (Some(_), Some(cut)) => item[cut + 1..].to_vec(),
            _ => item.clone(),
        };
        let Line { seq, note, acknowledged } = line.unwrap_or_default();
        Self { place, seq, note, acknowledged, raw, item }
    }

    /// The same item, dealt with.
    fn marked(&self, note: &OperatorNote) -> Result<Vec<u8>, serde_json::Error> {
        let line = Line { seq: self.seq, note: self.note.clone(), acknowledged: Some(note.clone()) };
        let mut item = serde_json::to_vec(&line)?;
        item.push(b'\n');
        item.extend_from_slice(&self.raw);
        Ok(item)
    }
}

impl LiveRedis {
    /// Moves the head of a shard aside, if it still is `head`, byte for byte; answers how many entries are left, or `None` when
    /// the head is another one and nothing changed. In one step; nothing is lost. The shard's index of pending
    /// spend is in doubt from then on: reindex it.
    ///
    /// # Errors
    ///
    /// When it may not have been moved; repeating the call is safe. [`LiveRedisError::NotConfigured`] for the list of an
    /// older deployment, which has no quarantine: old programs would not know of it.
    pub async fn quarantine(
        &self,
        shard: Shard,
        head: &[u8],
        note: &OperatorNote,
    ) -> Result<Option<u64>, LiveRedisError> {
        input::id("reason", &note.reason)?;
        let note = serde_json::to_string(note).map_err(|error| CallError::Answer(error.to_string()))?;
        let mut call = script::QUARANTINE.prepare_invoke();
        self.key_quarantine(&mut call, shard)?;
        call.key(self.shared.options.prefix.shard(shard).lost());
        call.arg(head).arg(note);
        self.strictly("quarantine", async { moved(&self.wide_script::<Vec<u64>>(&call).await?) }).await
    }

    /// What was moved aside in a shard, oldest first, at most `most`, dealt with or not.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub async fn quarantined(&self, shard: Shard, most: u32) -> Result<Vec<Quarantined>, LiveRedisError> {
        self.strictly("quarantined", self.read_quarantine(shard, most)).await
    }

    pub(super) async fn read_quarantine(
        &self,
        shard: Shard,
        most: u32,
    ) -> Result<Vec<Quarantined>, LiveRedisError> {
        let mut read = redis::cmd("LRANGE");
        read.arg(self.shared.options.prefix.shard(shard).quarantine()).arg(0).arg(i64::from(most) - 1);
        let items = self.wide::<Vec<Value>>(&read).await?.into_iter();
        let items = items.map(|item| Vec::<u8>::from_redis_value(item).map_err(|error| unexpected(&error)));
        (0..).zip(items).map(|(place, item)| Ok(Quarantined::read(place, item?))).collect()
    }

    /// Marks something that was moved aside as dealt with; answers whether it was still the one that was looked at. It stays
    /// where it is.
    ///
    /// # Errors
    ///
    /// When it may not have been marked; repeating the call is safe.
    pub async fn acknowledge_quarantined(
        &self,
        shard: Shard,
        item: &Quarantined,
        note: &OperatorNote,
    ) -> Result<bool, LiveRedisError> {
        input::id("reason", &note.reason)?;
        let marked = item.marked(note).map_err(|error| CallError::Answer(error.to_string()))?;
        let mut call = script::ACKNOWLEDGE_ITEM.prepare_invoke();
        call.key(self.shared.options.prefix.shard(shard).quarantine());
        call.arg(item.place).arg(&item.item[..]).arg(marked);
        self.strictly("acknowledge_quarantined", async { Ok(self.wide_script::<u64>(&call).await? == 1) })
            .await
    }

    /// Puts something back to the head of its shard, if it is still at its place; answers how many entries the shard
    /// holds, or `None` when nothing changed. In one step. The index is in doubt from then on: reindex it.
    ///
    /// # Errors
    ///
    /// When it may not have been put back. Look at the quarantine before repeating the call.
    pub async fn restore(&self, shard: Shard, item: &Quarantined) -> Result<Option<u64>, LiveRedisError> {
        let mut call = script::RESTORE.prepare_invoke();
        self.key_quarantine(&mut call, shard)?;
        call.arg(item.place).arg(&item.item[..]);
        self.strictly("restore", async { moved(&self.wide_script::<Vec<u64>>(&call).await?) }).await
    }

    fn key_quarantine(
        &self,
        call: &mut redis::ScriptInvocation<'_>,
        shard: Shard,
    ) -> Result<(), LiveRedisError> {
        if shard.is_older() {
            return Err(LiveRedisError::NotConfigured);
        }
        self.key_index(call, shard);
        call.key(self.shared.options.prefix.shard(shard).quarantine());
        Ok(())
    }
}

fn moved(answer: &[u64]) -> Result<Option<u64>, LiveRedisError> {
    match *answer {
        [0, _] => Ok(None),
        [1, left] => Ok(Some(left)),
        ref other => Err(CallError::Answer(format!("quarantine answered {other:?}")).into()),
    }
}
