//! The remembered request ids of a shard, for an audit: an id that is remembered and is nowhere is a bill that left without a trace.

use std::fmt;

use chrono::{DateTime, Utc};
use redis::{FromRedisValue, Value};
use spend_queue::{Entry, Millis, RequestDigest, Shard};

use super::unexpected;
use crate::LiveRedis;
use crate::connect::Question;
use crate::error::LiveRedisError;
use crate::keys::{SEEN_BUCKETS, seen_bucket, seen_field};

/// Buckets that one pipeline reads.
const BUCKETS_AT_ONCE: u16 = 256;

/// Entries that one reading of the queue takes: at most some megabytes.
const ENTRIES_AT_ONCE: i64 = 500;

/// What a shard remembers of one request id: its bucket and its digest within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mark {
    bucket: u16,
    field: [u8; 14],
}

/// Remembered ids, and where to go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marks {
    /// The marks of whole buckets.
    pub marks: Vec<Mark>,
    /// The bucket to go on with; `None` at the end.
    pub next: Option<u16>,
}

impl Mark {
    /// The mark of a request id.
    #[must_use]
    pub fn of(request_id: &str) -> Self {
        let digest = RequestDigest::of(request_id);
        Self { bucket: seen_bucket(&digest), field: seen_field(&digest).try_into().unwrap_or_default() }
    }
}

impl fmt::Display for Mark {
    /// The bucket and the digest in it, in hexadecimal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:", self.bucket)?;
        self.field.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl LiveRedis {
    /// Remembered request ids of a shard, from a bucket on, in whole buckets until there are at least `most`. With a bounded memory
    /// of ids, `now` says which generations are looked at: all that may still be there.
    ///
    /// # Errors
    ///
    /// When they cannot be read; [`LiveRedisError::Damaged`] when a field is no digest.
    pub async fn marks(
        &self,
        shard: Shard,
        from: u16,
        most: usize,
        now: DateTime<Utc>,
    ) -> Result<Marks, LiveRedisError> {
        let generations: Vec<Option<u64>> = match self.shared.options.dedup_retention.generation_millis() {
            None => vec![None],
            Some(length) => {
                let current = Millis::of(now).get() / length;
                (current.saturating_sub(3)..=current + 1).map(Some).collect()
            }
        };
        let (mut marks, mut bucket) = (Vec::new(), from);
        while bucket < SEEN_BUCKETS && marks.len() < most {
            let end = bucket.saturating_add(BUCKETS_AT_ONCE).min(SEEN_BUCKETS);
            self.strictly("marks", self.read_buckets(shard, bucket..end, &generations, &mut marks)).await?;
            bucket = end;
        }
        Ok(Marks { marks, next: (bucket < SEEN_BUCKETS).then_some(bucket) })
    }

    async fn read_buckets(
        &self,
        shard: Shard,
        buckets: std::ops::Range<u16>,
        generations: &[Option<u64>],
        marks: &mut Vec<Mark>,
    ) -> Result<(), LiveRedisError> {
        let keys = self.shared.options.prefix.shard(shard);
        let mut pipeline = redis::pipe();
        let mut asked = Vec::new();
        for bucket in buckets {
            for generation in generations {
                pipeline.hkeys(keys.seen_in(bucket, *generation));
                asked.push(bucket);
            }
        }
        let answers: Vec<Vec<Value>> = self.hot(&Question::Pipeline(&pipeline)).await?;
        for (bucket, fields) in asked.into_iter().zip(answers) {
            for field in fields {
                let field = Vec::<u8>::from_redis_value(field).map_err(|error| unexpected(&error))?;
                let field = field.try_into().map_err(|field: Vec<u8>| {
                    let bytes = field.len();
                    LiveRedisError::Damaged(format!("a remembered request id has {bytes} bytes, not 14"))
                })?;
                marks.push(Mark { bucket, field });
            }
        }
        Ok(())
    }

    /// The marks of everything that waits in a shard or was moved aside there, where it can be read. Whatever waits when this begins
    /// and is not acknowledged before it is read is among them: the list is read from its tail, so what is taken off its
    /// head or appended meanwhile shifts nothing out of sight.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    pub async fn waiting_marks(&self, shard: Shard) -> Result<Vec<Mark>, LiveRedisError> {
        let keys = self.shared.options.prefix.shard(shard);
        let mut marks = Vec::new();
        for list in [keys.queue(), keys.quarantine()] {
            let mut last = -1;
            loop {
                let mut read = redis::cmd("LRANGE");
                read.arg(&list).arg(last - ENTRIES_AT_ONCE + 1).arg(last);
                let items = self.strictly("waiting_marks", self.wide::<Vec<Value>>(&read)).await?;
                if items.is_empty() {
                    break;
                }
                for item in items {
                    let raw = Vec::<u8>::from_redis_value(item).map_err(|error| unexpected(&error))?;
                    marks.extend(mark_in(&raw));
                }
                last -= ENTRIES_AT_ONCE;
            }
        }
        Ok(marks)
    }
}

/// The mark of an entry, whether or not an operator's note stands before it.
fn mark_in(item: &[u8]) -> Option<Mark> {
    let behind = item.iter().position(|byte| *byte == b'\n').map(|cut| &item[cut + 1..]);
    let entry = [Some(item), behind].into_iter().flatten().find_map(|raw| Entry::decode(raw.to_vec()).ok());
    entry.map(|entry| Mark::of(&entry.event.request_id))
}
