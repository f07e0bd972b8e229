//! One shard's turns: how much to take, and how long to wait after what happened. No clock and no runtime of its own.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use chrono::{DateTime, Utc};
use spend_queue::{QueueError, Shard, SpendQueue};

use crate::flush_error::FlushError;
use crate::flusher::{Flusher, Step};
use crate::ledger::SpendLedger;
use crate::pace::Pace;

/// The shortest and the longest wait after a failed step.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// The longest wait for a server that is about to be there: one that starts, or a standby before its promotion. A look each half
/// second costs nothing, and what waits is settled right after.
const SOON: Duration = Duration::from_millis(500);

/// Works on one shard. It remembers its pace and nothing of the queue, so another may take over at any time.
#[derive(Debug)]
pub struct Worker {
    shard: Shard,
    pace: Pace,
    backoff: Option<ExponentialBackoff>,
    seed: u64,
}

/// What a turn did, and when the next is due.
#[derive(Debug)]
pub struct Turn<Q: SpendQueue, L: SpendLedger> {
    /// The step that was made.
    pub step: Step<Q::Error, L::Error>,
    /// How long to wait before the next turn.
    pub wait: Duration,
}

impl Worker {
    /// A worker at the start of its pace. The seed spreads the retries of a fleet.
    #[must_use]
    pub const fn new(shard: Shard, pace: Pace, seed: u64) -> Self {
        Self { shard, pace, backoff: None, seed }
    }

    /// The shard that it works on.
    #[must_use]
    pub const fn shard(&self) -> Shard {
        self.shard
    }

    /// One step by this clock; between two batches it asks whether it goes on. Dropping the future is safe at every point.
    pub async fn turn<Q: SpendQueue, L: SpendLedger>(
        &mut self,
        flusher: &Flusher<Q, L>,
        clock: impl Fn() -> DateTime<Utc> + Send,
        goes_on: impl Fn() -> bool + Send,
    ) -> Turn<Q, L> {
        let step = flusher.step(self.shard, self.pace.size(), clock, goes_on).await;
        if step.outcome.is_ok() || step.flushed.entries > 0 {
            self.backoff = None;
        }
        let wait = match &step.outcome {
            Ok(()) => self.pace.after(step.flushed.entries, step.flushed.left),
            Err(error) => self.after_failure::<_, L>(error),
        };
        Turn { step, wait }
    }

    fn after_failure<Q: QueueError, L: SpendLedger>(&mut self, error: &FlushError<Q, L::Error>) -> Duration {
        let FlushError::Commit(error) = error else { return self.back_off() };
        if L::is_too_slow(error) {
            self.pace.too_large();
        }
        let wait = self.back_off();
        if L::is_unavailable(error) { wait.min(SOON) } else { wait }
    }

    fn back_off(&mut self) -> Duration {
        let (shortest, longest) = BACKOFF;
        let backoff = self.backoff.get_or_insert_with(|| {
            ExponentialBuilder::new()
                .with_min_delay(shortest)
                .with_max_delay(longest)
                .with_jitter()
                .with_jitter_seed(self.seed)
                .without_max_times()
                .build()
        });
        backoff.next().unwrap_or(longest)
    }
}
