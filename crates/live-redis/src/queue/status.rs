//! Everything that an operator asks about a shard.

use std::collections::{BTreeMap, HashMap};

use spend_queue::{BatchLimit, Chain, Charge, Index, Peeked, ScopeRef, Shard, Usd};

use super::backlog::Backlog;
use super::losses::Loss;
use super::quarantine::Quarantined;
use crate::error::LiveRedisError;
use crate::{LiveRedis, script};

/// The most losses that a status lists.
const LOSSES: u32 = 1_000;
/// The most that was moved aside that a status lists. Each item was moved by hand.
const QUARANTINED: u32 = 10_000;

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
    /// Link of the last entry that was queued, as the state says.
    pub chain: Option<Chain>,
    /// Numbers that the state names and the list does not have, of one moment; 0 when the queue is whole.
    pub missing: u64,
    /// Losses that were found and recorded, oldest first, at most 1,000.
    pub losses: Vec<Loss>,
    /// What a script found wrong with the index, if one did: `foreign`, `short`, `index` or `quarantine`.
    pub doubt: Option<String>,
    /// What was moved aside, dealt with or not, oldest first, at most 10,000.
    pub quarantined: Vec<Quarantined>,
    /// Counters of pending spend, the largest amounts first. Not to be relied on while the index is in doubt.
    pub counters: Vec<(ScopeRef, Charge)>,
    /// Counters that are not what this release writes; strict reads of them are errors.
    pub damaged_counters: u64,
}

/// What is watched of a shard all the time: six commands, whatever it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueGlance {
    /// Entries, and since when the oldest waits.
    pub backlog: Backlog,
    /// Bytes of the list in the server's memory, by its own estimate.
    pub bytes: u64,
    /// Whether the index of pending spend is proven.
    pub index: Index,
    /// Entries that were moved aside and that nobody dealt with (at most 10,000 items are read).
    pub quarantined: u64,
    /// Entries that left the list without being acknowledged and that nobody dealt with: those of recorded losses (at most 1,000
    /// records), and what an empty list's state still names.
    pub lost: u64,
}

impl QueueStatus {
    /// Whether the index of pending spend is proven.
    #[must_use]
    pub const fn index(&self) -> Index {
        self.head.index
    }

    /// Whether the list is empty although the state names entries: nobody acknowledged them, and another hand took them off. What
    /// [`QueueStatus::counters`] hold is then what was lost.
    #[must_use]
    pub const fn lost_all(&self) -> bool {
        self.missing > 0 && self.backlog.entries == 0
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

/// Length and state of a queue, of one moment.
struct State {
    entries: u64,
    seqs: (Option<u64>, Option<u64>),
    chain: Option<Chain>,
    doubt: Option<String>,
}

impl State {
    /// How many numbers the state names and the list does not have.
    fn missing(&self) -> u64 {
        let (Some(head), Some(next)) = self.seqs else { return 0 };
        next.saturating_sub(head).saturating_sub(self.entries)
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
            let (quarantined, lost) = match shard.is_older() {
                true => (0, 0),
                false => (self.open_quarantined(shard).await?, self.lost_entries(shard).await?),
            };
            Ok(QueueGlance { backlog, bytes, index, quarantined, lost })
        })
        .await
    }

    async fn list_bytes(&self, shard: Shard) -> Result<u64, LiveRedisError> {
        let mut memory = redis::cmd("MEMORY");
        memory.arg("USAGE").arg(self.list_of(shard)?);
        Ok(self.wide::<Option<u64>>(&memory).await?.unwrap_or_default())
    }

    async fn open_quarantined(&self, shard: Shard) -> Result<u64, LiveRedisError> {
        let items = self.read_quarantine(shard, QUARANTINED).await?.into_iter();
        Ok(items.map(|item| u64::from(item.acknowledged.is_none())).sum())
    }

    async fn lost_entries(&self, shard: Shard) -> Result<u64, LiveRedisError> {
        let state = self.read_state(shard).await?;
        let unrecorded = if state.entries == 0 { state.missing() } else { 0 };
        let losses = self.read_losses(shard, LOSSES).await?;
        let open = losses.iter().filter(|loss| loss.acknowledged.is_none());
        Ok(open.fold(unrecorded, |sum, loss| sum.saturating_add(loss.entries())))
    }

    /// Length and state in one look: between two, a flusher may take off what the first one counted.
    async fn read_state(&self, shard: Shard) -> Result<State, LiveRedisError> {
        let keys = self.shared.options.prefix.shard(shard);
        let mut call = script::QUEUE_STATE.prepare_invoke();
        call.key(keys.queue()).key(keys.state());
        let (entries, head, next, chain, doubt) =
            self.wide_script::<(u64, String, String, String, String)>(&call).await?;
        Ok(State {
            entries,
            seqs: (head.parse().ok(), next.parse().ok()),
            chain: chain.parse().ok(),
            doubt: Some(doubt).filter(|doubt| !doubt.is_empty()),
        })
    }

    async fn examine_queue(&self, shard: Shard) -> Result<QueueStatus, LiveRedisError> {
        let mut status = QueueStatus {
            shard,
            backlog: self.read_backlog(shard).await?,
            bytes: self.list_bytes(shard).await?,
            head: self.read_head(shard, BatchLimit::MIN).await?,
            seqs: (None, None),
            chain: None,
            missing: 0,
            losses: Vec::new(),
            doubt: None,
            quarantined: Vec::new(),
            counters: Vec::new(),
            damaged_counters: 0,
        };
        if shard.is_older() {
            return Ok(status);
        }
        let keys = self.shared.options.prefix.shard(shard);
        let state = self.read_state(shard).await?;
        (status.seqs, status.missing) = (state.seqs, state.missing());
        (status.chain, status.doubt) = (state.chain, state.doubt);
        status.losses = self.read_losses(shard, LOSSES).await?;
        status.quarantined = self.read_quarantine(shard, QUARANTINED).await?;
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
