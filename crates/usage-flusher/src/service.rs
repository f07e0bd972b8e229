//! All shards, each in a task of its own, until told to stop.

use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use spend_queue::{Shard, SpendQueue};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::flusher::{FlushError, Flusher};
use crate::ledger::SpendLedger;
use crate::pace::Pace;
use crate::worker::Worker;

/// Flushes all shards of a queue, each at its own pace: a shard that fails, hangs or stands still waits alone.
#[derive(Debug)]
pub struct Service<Q, L> {
    flusher: Arc<Flusher<Q, L>>,
    pace: Pace,
    in_flight: usize,
}

impl<Q: SpendQueue + 'static, L: SpendLedger> Service<Q, L> {
    /// A service over all shards of the flusher's queue, of which so many are worked on at once (at least 1): it bounds
    /// connections, and memory, since a batch has at most [`spend_queue::MAX_PEEK_BYTES`].
    pub fn new(flusher: Flusher<Q, L>, pace: &Pace, in_flight: usize) -> Self {
        Self { flusher: Arc::new(flusher), pace: pace.clone(), in_flight: in_flight.max(1) }
    }

    /// Runs until `stop` turns true (or its sender is gone); the steps at hand are finished first.
    pub async fn run(self, stop: watch::Receiver<bool>) {
        let permits = Arc::new(Semaphore::new(self.in_flight));
        let mut tasks = JoinSet::new();
        for shard in self.flusher.queue().sources() {
            let worker = Worker::new(shard, self.pace.clone(), seed(shard));
            tasks.spawn(drive(worker, Arc::clone(&self.flusher), Arc::clone(&permits), stop.clone()));
        }
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "the task of a shard died; its shard waits for the next start");
            }
        }
    }
}

/// Turn after turn of one shard. Permits are given in the order in which they were asked for, so no shard starves.
async fn drive<Q: SpendQueue, L: SpendLedger>(
    mut worker: Worker,
    flusher: Arc<Flusher<Q, L>>,
    permits: Arc<Semaphore>,
    mut stop: watch::Receiver<bool>,
) {
    let mut wait = Duration::ZERO;
    loop {
        let permit = tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return,
            permit = async { sleep(wait).await; permits.acquire().await } => permit,
        };
        let turn = worker.turn(&flusher, Utc::now()).await;
        drop(permit);
        wait = turn.wait;
        if let Err(error) = &turn.step {
            log_failure::<Q, L>(worker.shard(), error, wait);
        }
    }
}

fn log_failure<Q: SpendQueue, L: SpendLedger>(
    shard: Shard,
    error: &FlushError<Q::Error, L::Error>,
    wait: Duration,
) {
    let (shard, wait_ms) = (shard.index(), wait.as_millis());
    if error.is_transient::<L>() {
        tracing::warn!(shard, %error, wait_ms, "step failed; it is tried again");
    } else {
        tracing::error!(shard, %error, wait_ms, "step failed and needs an operator");
    }
}

/// Different for each process and shard.
fn seed(shard: Shard) -> u64 {
    u64::from(std::process::id()) << 16 | u64::from(shard.index())
}
