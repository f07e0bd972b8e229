//! Replaying a workload: every request asks for admission, every admitted one leaves a bill in the queue.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use indicatif::ProgressBar;
use live_redis::{LiveRedis, LiveRedisError};
use rate_plan::PathError;
use spend_queue::ScopeRefError;
use thiserror::Error;
use tokio::sync::{AcquireError, Semaphore, mpsc};
use tokio::task::{JoinError, JoinSet};

use crate::backlog::Backlog;
use crate::chart::Chart;
use crate::delivery::Delivery;
use crate::enrol::Enrolled;
use crate::journal::{Journal, SumOverflow};
use crate::lane::{Common, Lane};
use crate::prices::Model;
use crate::run::RunId;
use crate::source::Requests;
use crate::tenants::Tenants;
use crate::trace::TraceError;
use crate::workload::Assignment;

/// Requests that may wait for one organization's turn. With six organizations this bounds the memory of a replay.
const LANE_BUFFER: usize = 256;

/// How a workload is replayed.
#[derive(Clone, Debug)]
pub struct ReplayOptions {
    /// Whose tenants and requests these are.
    pub run_id: RunId,
    /// Decides which key sends which request, and the duplicates.
    pub seed: u64,
    /// The most deliveries to the queue under way, 1 or more.
    pub concurrency: usize,
    /// Producers wait while a shard of the queue holds more entries.
    pub max_backlog: u64,
    /// The longest that they wait.
    pub patience: Duration,
    /// How often a call to Redis is attempted when its errors pass, 1 or more.
    pub attempts: u32,
}

/// What a replay did.
#[derive(Clone, Debug, Default)]
pub struct Played {
    /// Requests that asked for admission.
    pub requests: u64,
    /// Those that were admitted.
    pub admitted: u64,
    /// Those that were refused, by reason.
    pub rejected: BTreeMap<String, u64>,
    /// Events that were sent a second time on purpose.
    pub duplicates_sent: u64,
    /// Answers that the queue's contract does not allow, and how often each was given.
    pub faults: BTreeMap<&'static str, u64>,
    /// The events that were queued.
    pub journal: Journal,
    /// Requests over time.
    pub chart: Chart,
}

/// Why a replay did not come to its end. Events queued before stay queued.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The trace changed after it was validated.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// Redis did not decide.
    #[error("admission of request {index}: {error}")]
    Admission {
        /// The request's place in the trace, from 0.
        index: u64,
        /// What Redis said last.
        error: LiveRedisError,
    },
    /// Redis did not take an event, or did not tell the queue's depth.
    #[error("spend queue: {0}")]
    Queue(#[from] LiveRedisError),
    /// Nobody shortens the queue.
    #[error(
        "the queue holds {depth} entries, {most} are allowed, and has not become shorter within {waited:?}; \
         is a flusher running for this Redis, prefix and database?"
    )]
    Stuck {
        /// Entries of the longest shard.
        depth: u64,
        /// The bound.
        most: u64,
        /// How long was waited.
        waited: Duration,
    },
    /// The costs do not add up in the type that holds them.
    #[error(transparent)]
    Sum(#[from] SumOverflow),
    /// A tenant's id is no legal scope.
    #[error("tenant: {0}")]
    Scope(#[from] ScopeRefError),
    /// A key's path is not in its tree.
    #[error("tenant: {0}")]
    Path(#[from] PathError),
    /// A task ended by a panic, or was cut short.
    #[error("a part of the replay broke off: {0}")]
    Task(#[from] JoinError),
    /// The semaphore that bounds deliveries was closed; nobody does that.
    #[error("a part of the replay broke off: {0}")]
    Permits(#[from] AcquireError),
}

/// Replays requests in the order of their trace, each organization's one after the other and the organizations beside
/// each other. `enrolled` has one entry for each organization of `tenants`.
///
/// # Errors
///
/// The first [`ReplayError`].
pub async fn replay(
    options: ReplayOptions,
    redis: LiveRedis,
    tenants: Tenants,
    enrolled: Vec<Enrolled>,
    models: Vec<Model>,
    requests: Requests,
    progress: ProgressBar,
) -> Result<Played, ReplayError> {
    let ReplayOptions { run_id, seed, concurrency, max_backlog, patience, attempts } = options;
    let backlog = Arc::new(Backlog::new(max_backlog, patience));
    let delivery = Delivery { redis: redis.clone(), backlog, attempts };
    let permits = Arc::new(Semaphore::new(concurrency.max(1)));
    let common =
        Arc::new(Common { run_id, seed, attempts, redis, delivery, permits, tenants, models, progress });
    let mut lanes = JoinSet::new();
    let mut senders = Vec::with_capacity(enrolled.len());
    for enrolled in enrolled {
        let (sender, receiver) = mpsc::channel(LANE_BUFFER);
        senders.push(sender);
        lanes.spawn(Lane::new(Arc::clone(&common), enrolled).run(receiver));
    }
    dispatch(&common, requests, senders).await?;
    let mut played = Played::default();
    while let Some(lane) = lanes.join_next().await {
        played.merge(lane??)?;
    }
    Ok(played)
}

/// Gives each request to its organization's lane, until there are no more or a lane has ended early. The lanes end
/// when their senders are dropped.
async fn dispatch(
    common: &Common,
    requests: Requests,
    senders: Vec<mpsc::Sender<crate::workload::Request>>,
) -> Result<(), ReplayError> {
    let mut assignment = Assignment::new(&common.tenants, common.models.len(), common.seed);
    for request in requests {
        let request = assignment.assign(request?);
        let Some(lane) = senders.get(request.caller.organization) else { continue };
        if lane.send(request).await.is_err() {
            break;
        }
    }
    Ok(())
}

impl Played {
    fn merge(&mut self, other: Self) -> Result<(), SumOverflow> {
        self.requests += other.requests;
        self.admitted += other.admitted;
        self.duplicates_sent += other.duplicates_sent;
        for (reason, count) in other.rejected {
            *self.rejected.entry(reason).or_default() += count;
        }
        for (fault, count) in other.faults {
            *self.faults.entry(fault).or_default() += count;
        }
        self.chart.merge(other.chart);
        self.journal.merge(other.journal)
    }
}
