//! The loop over all shards, until it is told to stop.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use chrono::Utc;
use spend_queue::{Shard, SpendQueue};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::flusher::{FlushError, Flusher};
use crate::ledger::SpendLedger;
use crate::pace::Pace;

/// The shortest and the longest wait after a failed step; jitter spreads the flushers of a fleet.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Flushes all shards of a queue, each at its own pace: a shard that fails or stands still waits alone.
#[derive(Debug)]
pub struct Service<Q, L> {
    flusher: Flusher<Q, L>,
    shards: Vec<ShardState>,
}

#[derive(Debug)]
struct ShardState {
    shard: Shard,
    pace: Pace,
    due: Instant,
    backoff: Option<ExponentialBackoff>,
}

impl<Q: SpendQueue, L: SpendLedger> Service<Q, L> {
    /// A service over all shards of the flusher's queue.
    pub fn new(flusher: Flusher<Q, L>, pace: &Pace) -> Self {
        let due = Instant::now();
        let shards = flusher.queue().shards().iter();
        let shards =
            shards.map(|shard| ShardState { shard, pace: pace.clone(), due, backoff: None }).collect();
        Self { flusher, shards }
    }

    /// Runs until `stop` turns true (or its sender is gone); the step at hand is finished first.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) {
        while !*stop.borrow() {
            let Some(next) = self.shards.iter_mut().min_by_key(|state| state.due) else { return };
            tokio::select! {
                biased;
                changed = stop.changed() => {
                    if changed.is_err() { return }
                    continue;
                }
                () = sleep_until(next.due) => {}
            }
            let wait = next.step(&self.flusher).await;
            next.due = Instant::now() + wait;
        }
    }
}

impl ShardState {
    /// One step; returns the wait until the next.
    async fn step<Q: SpendQueue, L: SpendLedger>(&mut self, flusher: &Flusher<Q, L>) -> Duration {
        match flusher.step(self.shard, self.pace.size(), Utc::now()).await {
            Ok(done) => {
                self.backoff = None;
                self.pace.after(done.entries, done.left)
            }
            Err(error) => self.back_off::<Q, L>(&error),
        }
    }

    fn back_off<Q: SpendQueue, L: SpendLedger>(
        &mut self,
        error: &FlushError<Q::Error, L::Error>,
    ) -> Duration {
        let (shortest, longest) = BACKOFF;
        let backoff = self.backoff.get_or_insert_with(|| {
            ExponentialBuilder::new()
                .with_min_delay(shortest)
                .with_max_delay(longest)
                .with_jitter()
                .without_max_times()
                .build()
        });
        let wait = backoff.next().unwrap_or(longest);
        let shard = self.shard.index();
        if error.is_transient::<L>() {
            tracing::warn!(shard, %error, wait_ms = wait.as_millis(), "step failed; it is tried again");
        } else {
            tracing::error!(shard, %error, wait_ms = wait.as_millis(), "step failed and needs an operator");
        }
        wait
    }
}
