//! All shards, each in a task of its own, until told to stop.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use spend_queue::{Shard, SpendQueue};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::board::Board;
use crate::flush_error::FlushError;
use crate::flusher::Flusher;
use crate::ledger::SpendLedger;
use crate::ownership::Ownership;
use crate::pace::Pace;
use crate::worker::Worker;

/// How often shards are asked for: the time in which those of a dead flusher are taken over.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// How long an answer may take before none of the shards is ours.
const ASK_WITHIN: Duration = Duration::from_secs(5);

/// Flushes all shards of a queue, each at its own pace: a shard that fails, hangs or stands still waits alone.
#[derive(Debug)]
pub struct Service<Q, L> {
    flusher: Arc<Flusher<Q, L>>,
    pace: Pace,
    in_flight: usize,
    board: Board,
}

impl<Q: SpendQueue + 'static, L: SpendLedger> Service<Q, L> {
    /// A service over all shards of the flusher's queue, of which so many are worked on at once (at least 1): it bounds
    /// connections, and memory, since a peek returns at most [`spend_queue::MAX_PEEK_BYTES`].
    pub fn new(flusher: Flusher<Q, L>, pace: &Pace, in_flight: usize, board: Board) -> Self {
        Self { flusher: Arc::new(flusher), pace: pace.clone(), in_flight: in_flight.max(1), board }
    }

    /// Runs until `stop` turns true (or its sender is gone); the batches at hand are finished first, then the shards
    /// are given up.
    pub async fn run(self, ownership: impl Ownership, stop: watch::Receiver<bool>) {
        let sources = self.flusher.queue().sources();
        let (owned, ours) = watch::channel(BTreeSet::new());
        let permits = Arc::new(Semaphore::new(self.in_flight));
        let mut tasks = JoinSet::new();
        for shard in &sources {
            let worker = Worker::new(*shard, self.pace.clone(), seed(*shard));
            let (flusher, permits) = (Arc::clone(&self.flusher), Arc::clone(&permits));
            tasks.spawn(drive(worker, flusher, permits, ours.clone(), stop.clone(), self.board.clone()));
        }
        let ownership = keep(ownership, &sources, &owned, stop, &self.board).await;
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "the task of a shard died; its shard waits for the next start");
            }
        }
        ownership.release().await;
    }
}

/// Asks for the shards again and again, until told to stop.
async fn keep<O: Ownership>(
    mut ownership: O,
    sources: &[Shard],
    owned: &watch::Sender<BTreeSet<Shard>>,
    mut stop: watch::Receiver<bool>,
    board: &Board,
) -> O {
    loop {
        let held = match timeout(ASK_WITHIN, ownership.hold(sources)).await {
            Ok(Ok(held)) => {
                board.write(|notices| notices.postgresql.answered(Utc::now()));
                held
            }
            Ok(Err(error)) => lost(board, error.to_string()),
            Err(_) => lost(board, format!("no answer within {ASK_WITHIN:?}")),
        };
        board.owns(sources, &held);
        owned.send_if_modified(|before| {
            let taken: Vec<_> = held.difference(before).map(|shard| shard.index()).collect();
            let given: Vec<_> = before.difference(&held).map(|shard| shard.index()).collect();
            if taken.is_empty() && given.is_empty() {
                return false;
            }
            tracing::info!(?taken, ?given, "shards changed hands");
            *before = held;
            true
        });
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return ownership,
            () = sleep(ASK_EVERY) => {}
        }
    }
}

fn lost(board: &Board, error: String) -> BTreeSet<Shard> {
    tracing::warn!(error, "cannot ask which shards are ours; none is until it can");
    board.write(|notices| notices.postgresql.failed(error));
    BTreeSet::new()
}

/// Turn after turn of one shard, while it is ours. Permits are given in the order in which they were asked for, so no shard
/// starves.
async fn drive<Q: SpendQueue, L: SpendLedger>(
    mut worker: Worker,
    flusher: Arc<Flusher<Q, L>>,
    permits: Arc<Semaphore>,
    mut ours: watch::Receiver<BTreeSet<Shard>>,
    mut stop: watch::Receiver<bool>,
    board: Board,
) {
    let shard = worker.shard();
    let mut wait = Duration::ZERO;
    loop {
        let turn_comes = async {
            sleep(wait).await;
            let _ = ours.wait_for(|ours| ours.contains(&shard)).await;
            permits.acquire().await
        };
        let permit = tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return,
            permit = turn_comes => permit,
        };
        let goes_on = || !*stop.borrow() && ours.borrow().contains(&shard);
        let turn = worker.turn(&flusher, Utc::now, goes_on).await;
        drop(permit);
        wait = turn.wait;
        let (flushed, outcome) = (turn.step.flushed.entries, turn.step.outcome);
        if outcome.is_ok() || flushed > 0 {
            board.stepped(shard, flushed, Utc::now());
            board.write(|notices| notices.redis.answered(Utc::now()));
        }
        if let Err(error) = &outcome {
            report::<Q, L>(&board, shard, error, wait);
        }
    }
}

fn report<Q: SpendQueue, L: SpendLedger>(
    board: &Board,
    shard: Shard,
    error: &FlushError<Q::Error, L::Error>,
    wait: Duration,
) {
    let wait_ms = wait.as_millis();
    let transient = error.is_transient::<L>();
    board.failed(shard, error.to_string(), !transient);
    if matches!(error, FlushError::Peek(_) | FlushError::Ack(_)) {
        board.write(|notices| notices.redis.failed(error.to_string()));
    }
    if transient {
        tracing::warn!(shard = shard.index(), %error, wait_ms, "step failed; it is tried again");
    } else {
        tracing::error!(shard = shard.index(), %error, wait_ms, "step failed and needs an operator");
    }
}

/// Different for each process and shard.
fn seed(shard: Shard) -> u64 {
    u64::from(std::process::id()) << 16 | u64::from(shard.index())
}
