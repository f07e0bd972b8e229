//! How much waits to be flushed: for operators, and for hosts that slow down rather than pile up.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use futures_util::future::try_join_all;
use redis::FromRedisValue;
use spend_queue::{Millis, Shard, SpendQueue};

use crate::error::{CallError, LiveRedisError};
use crate::{LiveRedis, script};

/// What waits in one list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Backlog {
    /// Entries.
    pub entries: u64,
    /// When the oldest was made ready, by its host's clock; `None` when nothing waits, or when the head does not say (no
    /// entry of this release).
    pub oldest: Option<DateTime<Utc>>,
}

/// From where on a backlog is too high: a host should admit less, and an operator should look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watermarks {
    /// Entries in all lists together. Default 100,000: a few seconds for a healthy flusher, and about 60 MB.
    pub entries: u64,
    /// Age of the oldest entry. Default one minute: a healthy flusher keeps it below a second.
    pub age: Duration,
    /// How long an answer may be used again, so that asking before each request costs nothing. Default 250 ms.
    pub freshness: Duration,
}

/// Whether the flusher keeps up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pressure {
    /// Entries in all lists together.
    pub entries: u64,
    /// Age of the oldest of all; zero when nothing waits, or when hosts' clocks disagree so far.
    pub age: Duration,
    /// Whether a watermark is passed.
    pub high: bool,
}

/// The last answer, and when it was given.
#[derive(Debug, Default)]
pub(crate) struct Backlogs {
    kept: Mutex<Option<(Instant, Backlog)>>,
    /// Held while one reads for all that ask meanwhile.
    turn: tokio::sync::Mutex<()>,
}

impl Default for Watermarks {
    fn default() -> Self {
        Self { entries: 100_000, age: Duration::from_secs(60), freshness: Duration::from_millis(250) }
    }
}

impl Backlog {
    fn and(self, other: Self) -> Self {
        let oldest = match (self.oldest, other.oldest) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        Self { entries: self.entries.saturating_add(other.entries), oldest }
    }

    /// How long the oldest entry has waited.
    #[must_use]
    pub fn age(&self, now: DateTime<Utc>) -> Duration {
        self.oldest.and_then(|oldest| (now - oldest).to_std().ok()).unwrap_or_default()
    }
}

impl LiveRedis {
    /// What waits in one list: O(1), one call.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub async fn backlog(&self, shard: Shard) -> Result<Backlog, LiveRedisError> {
        self.strictly("backlog", self.read_backlog(shard)).await
    }

    /// Whether the flusher keeps up, over all lists. Reads Redis at most once in [`Watermarks::freshness`] for all callers of
    /// this client and its clones.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub async fn pressure(&self, marks: &Watermarks, now: DateTime<Utc>) -> Result<Pressure, LiveRedisError> {
        let total = match self.shared.backlogs.fresh(marks.freshness) {
            Some(total) => total,
            None => self.strictly("pressure", self.read_total(marks.freshness)).await?,
        };
        let age = total.age(now);
        Ok(Pressure { entries: total.entries, age, high: total.entries >= marks.entries || age >= marks.age })
    }

    /// One reads; who waited for it takes its answer.
    async fn read_total(&self, freshness: Duration) -> Result<Backlog, LiveRedisError> {
        let backlogs = &self.shared.backlogs;
        let _turn = self.within_deadline(async { Ok(backlogs.turn.lock().await) }).await?;
        if let Some(total) = backlogs.fresh(freshness) {
            return Ok(total);
        }
        let all = try_join_all(self.sources().into_iter().map(|shard| self.read_backlog(shard))).await?;
        let total = all.into_iter().fold(Backlog::default(), Backlog::and);
        backlogs.keep(total);
        Ok(total)
    }

    pub(super) async fn read_backlog(&self, shard: Shard) -> Result<Backlog, LiveRedisError> {
        let call = script::BACKLOG.key(self.list_of(shard)?);
        let (entries, queued) = self.hot_script::<(u64, redis::Value)>(&call).await?;
        let queued =
            String::from_redis_value(queued).map_err(|error| CallError::Answer(error.to_string()))?;
        let oldest = queued.parse().ok().and_then(Millis::new).map(Millis::instant);
        Ok(Backlog { entries, oldest })
    }
}

impl Backlogs {
    fn fresh(&self, freshness: Duration) -> Option<Backlog> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.filter(|(at, _)| at.elapsed() < freshness).map(|(_, total)| total)
    }

    fn keep(&self, total: Backlog) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), total));
    }
}
