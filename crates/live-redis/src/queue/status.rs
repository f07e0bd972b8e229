//! Everything that an operator asks about a shard.

use std::collections::{BTreeMap, HashMap};

use spend_queue::{BatchLimit, Charge, Index, Peeked, ScopeRef, Shard, Usd};

use super::backlog::Backlog;
use crate::LiveRedis;
use crate::error::LiveRedisError;

/// A shard as an operator sees it. Its parts are read one after the other, so they may differ by what happened between.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueStatus {
    /// Which shard.
    pub shard: Shard,
    /// Entries, and since when the oldest waits.
    pub backlog: Backlog,
    /// Bytes of the list in the server's memory, by its own estimate.
    pub bytes: u64,
    /// The head, and whether the index is proven.
    pub head: Peeked,
    /// Number of the first entry and number that the next one will get, as the state says; `None` where it does not.
    pub seqs: (Option<u64>, Option<u64>),
    /// What a script found wrong with the index, if one did: `foreign`, `short`, `index` or `quarantine`.
    pub doubt: Option<String>,
    /// Entries that were moved aside.
    pub quarantined: u64,
    /// Counters of pending spend, the largest amounts first. Not to be relied on while the index is in doubt.
    pub counters: Vec<(ScopeRef, Charge)>,
    /// Counters that are not what this release writes; strict reads of them are errors.
    pub damaged_counters: u64,
}

/// What is watched of a shard all the time: four commands, whatever it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueGlance {
    /// Entries, and since when the oldest waits.
    pub backlog: Backlog,
    /// Bytes of the list in the server's memory, by its own estimate.
    pub bytes: u64,
    /// Whether the index of pending spend is proven.
    pub index: Index,
    /// Entries that were moved aside.
    pub quarantined: u64,
}

impl QueueStatus {
    /// Whether the index of pending spend is proven.
    #[must_use]
    pub const fn index(&self) -> Index {
        self.head.index
    }

    /// Scopes and pending amount of each kind of scope. Kinds overlap: an event charges several.
    #[must_use]
    pub fn by_kind(&self) -> BTreeMap<&str, (u64, Usd)> {
        let mut kinds = BTreeMap::<&str, (u64, Usd)>::new();
        for (scope, charge) in &self.counters {
            let (scopes, sum) = kinds.entry(scope.kind()).or_default();
            *scopes += 1;
            *sum = sum.checked_add(charge.amount).unwrap_or(*sum);
        }
        kinds
    }
}

impl LiveRedis {
    /// Looks at a shard. Reads all its counters, so it is for people, not for the hot path.
    ///
    /// # Errors
    ///
    /// When something cannot be read.
    pub async fn queue_status(&self, shard: Shard) -> Result<QueueStatus, LiveRedisError> {
        self.strictly("queue_status", self.examine_queue(shard)).await
    }

    /// Looks at a shard as one that watches it.
    ///
    /// # Errors
    ///
    /// When something cannot be read.
    pub async fn queue_glance(&self, shard: Shard) -> Result<QueueGlance, LiveRedisError> {
        self.strictly("queue_glance", async {
            let backlog = self.read_backlog(shard).await?;
            let (bytes, index) = match backlog.entries {
                0 => (0, Index::Proven),
                _ => (self.list_bytes(shard).await?, self.read_head(shard, BatchLimit::MIN).await?.index),
            };
            let quarantined = if shard.is_older() { 0 } else { self.quarantine_length(shard).await? };
            Ok(QueueGlance { backlog, bytes, index, quarantined })
        })
        .await
    }

    async fn list_bytes(&self, shard: Shard) -> Result<u64, LiveRedisError> {
        let mut memory = redis::cmd("MEMORY");
        memory.arg("USAGE").arg(self.list_of(shard)?);
        Ok(self.wide::<Option<u64>>(&memory).await?.unwrap_or_default())
    }

    async fn quarantine_length(&self, shard: Shard) -> Result<u64, LiveRedisError> {
        let mut length = redis::cmd("LLEN");
        self.wide(length.arg(self.shared.options.prefix.shard(shard).quarantine())).await
    }

    async fn examine_queue(&self, shard: Shard) -> Result<QueueStatus, LiveRedisError> {
        let mut status = QueueStatus {
            shard,
            backlog: self.read_backlog(shard).await?,
            bytes: self.list_bytes(shard).await?,
            head: self.read_head(shard, BatchLimit::MIN).await?,
            seqs: (None, None),
            doubt: None,
            quarantined: 0,
            counters: Vec::new(),
            damaged_counters: 0,
        };
        if shard.is_older() {
            return Ok(status);
        }
        let keys = self.shared.options.prefix.shard(shard);
        let mut state = redis::cmd("HMGET");
        state.arg(keys.state()).arg(&["head", "next", "doubt"]);
        let (head, next, doubt): (Option<String>, Option<String>, Option<String>) = self.wide(&state).await?;
        let number = |text: Option<String>| text.and_then(|text| text.parse().ok());
        (status.seqs, status.doubt) = ((number(head), number(next)), doubt);
        status.quarantined = self.quarantine_length(shard).await?;
        let whole = |key: String| {
            let mut command = redis::cmd("HGETALL");
            command.arg(key);
            async move { self.wide::<HashMap<String, String>>(&command).await }
        };
        let (amounts, mut counts) = tokio::try_join!(whole(keys.hot()), whole(keys.count()))?;
        for (name, amount) in amounts {
            let count = counts.remove(&name);
            match read_counter(&name, &amount, count.as_deref()) {
                Some(counter) => status.counters.push(counter),
                None => status.damaged_counters += 1,
            }
        }
        status.damaged_counters += u64::try_from(counts.len()).unwrap_or(u64::MAX);
        status.counters.sort_by(|(scope, charge), (other, than)| {
            than.amount.cmp(&charge.amount).then_with(|| scope.cmp(other))
        });
        Ok(status)
    }
}

fn read_counter(name: &str, amount: &str, count: Option<&str>) -> Option<(ScopeRef, Charge)> {
    let (picos, paid_events): (i64, u64) = (amount.parse().ok()?, count?.parse().ok()?);
    let charge = Charge { amount: Usd::from_picos(picos.into()), paid_events };
    (picos > 0 && paid_events > 0).then_some((name.parse().ok()?, charge))
}
