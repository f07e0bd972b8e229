//! What a key has spent so far, for people to see: settled spend of all periods and what is still in the queue.
//!
//! No decision depends on it (budgets are read by the budget step), so it is read while the upstream works, and left out when
//! it cannot be had exactly. Hot spend is read before settled spend, so that what a flusher carries over meanwhile is seen twice for a
//! moment and never missed. One read serves all requests of a key that come within [`FRESH`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use iam_ledger::Ledger;
use live_redis::LiveRedis;
use spend_queue::{PendingSpend, ScopeRef, Usd};
use tokio::time::Instant;

/// For how long a read serves.
const FRESH: Duration = Duration::from_millis(100);
/// After a failed read, none is tried for so long.
const RESTING: Duration = Duration::from_secs(1);
/// How long one may take.
const PATIENCE: Duration = Duration::from_millis(500);
/// The most keys that are remembered; then all are forgotten.
const MAX_KEYS: usize = 10_000;

#[derive(Debug)]
pub(crate) struct KeySpends {
    redis: LiveRedis,
    ledger: Ledger,
    keys: Mutex<HashMap<ScopeRef, Arc<Slot>>>,
}

/// The last read of one key; whoever holds the lock reads for all who wait.
type Slot = tokio::sync::Mutex<Option<Read>>;

#[derive(Debug, Clone, Copy)]
struct Read {
    began: Instant,
    spend: Option<Usd>,
}

impl KeySpends {
    pub(crate) fn new(redis: LiveRedis, ledger: Ledger) -> Self {
        Self { redis, ledger, keys: Mutex::default() }
    }

    /// The spend of a key, at most a tenth of a second old; `None` when it cannot be told exactly.
    pub(crate) async fn of(&self, key: &ScopeRef) -> Option<Usd> {
        let slot = self.slot(key);
        let mut last = slot.lock().await;
        if let Some(read) = *last {
            let lasting = if read.spend.is_some() { FRESH } else { RESTING };
            if read.began.elapsed() < lasting {
                return read.spend;
            }
        }
        let began = Instant::now();
        let spend = tokio::time::timeout(PATIENCE, self.read(key)).await.ok().flatten();
        *last = Some(Read { began, spend });
        spend
    }

    async fn read(&self, key: &ScopeRef) -> Option<Usd> {
        let hot = self.redis.pending_key(key.id()).await.inspect_err(|error| unreadable(key, error)).ok()?;
        let settled = self.ledger.spend_of(key).await.inspect_err(|error| unreadable(key, error)).ok()?;
        Usd::checked_sum(settled.iter().map(|period| period.spend).chain([hot]))
    }

    fn slot(&self, key: &ScopeRef) -> Arc<Slot> {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = keys.get(key) {
            return Arc::clone(slot);
        }
        if keys.len() >= MAX_KEYS {
            keys.clear();
        }
        Arc::clone(keys.entry(key.clone()).or_default())
    }
}

fn unreadable(key: &ScopeRef, error: &dyn std::fmt::Display) {
    tracing::debug!(%key, %error, "the spend of a key cannot be shown");
}
