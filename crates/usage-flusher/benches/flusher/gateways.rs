//! Those who enqueue: several gateways, each with many calls at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bench_frame::traffic::{self, Callers};
use chrono::Utc;
use live_redis::{LiveRedis, Options};
use spend_queue::{Enqueued, SpendQueue, Usd};
use tokio::task::JoinSet;

use crate::stack::Stack;

const GATEWAYS: usize = 4;
/// Calls of one gateway that end at once.
const CALLERS: usize = 128;
/// A server that is at its limit answers late, and that is no failure here.
const DEADLINE: Duration = Duration::from_secs(30);

/// What was enqueued and accepted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent {
    pub(crate) events: usize,
    pub(crate) cost: Usd,
}

/// Gateways at work.
pub(crate) struct Gateways {
    stop: Arc<AtomicBool>,
    tasks: JoinSet<Result<Sent>>,
}

impl Gateways {
    /// They enqueue as fast as they can, until so many events are sent or they are stopped. Each event is checked, digested and
    /// written on the way, as in a gateway.
    pub(crate) fn start(stack: &Stack, events: usize) -> Result<Self> {
        let (stop, next) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let mut tasks = JoinSet::new();
        for _ in 0..GATEWAYS {
            let redis = stack.block_on(stack.client(Options::default().with_deadline(DEADLINE)))?;
            for _ in 0..CALLERS {
                let call = call(redis.clone(), next.clone(), events, stop.clone());
                tasks.spawn_on(call, stack.runtime().handle());
            }
        }
        Ok(Self { stop, tasks })
    }

    /// Waits until all is sent.
    pub(crate) fn join(mut self, stack: &Stack) -> Result<Sent> {
        stack.block_on(async {
            let (mut events, mut costs) = (0, Vec::new());
            while let Some(sent) = self.tasks.join_next().await {
                let sent = sent??;
                events += sent.events;
                costs.push(sent.cost);
            }
            Ok(Sent { events, cost: Usd::checked_sum(costs).context("too much money")? })
        })
    }

    /// Stops them; every event under way is waited for.
    pub(crate) fn stop(self, stack: &Stack) -> Result<Sent> {
        self.stop.store(true, Ordering::Relaxed);
        self.join(stack)
    }
}

async fn call(
    redis: LiveRedis,
    next: Arc<AtomicUsize>,
    events: usize,
    stop: Arc<AtomicBool>,
) -> Result<Sent> {
    let hour = Utc::now();
    let mut sent = Sent { events: 0, cost: Usd::ZERO };
    while !stop.load(Ordering::Relaxed) {
        let nth = next.fetch_add(1, Ordering::Relaxed);
        if nth >= events {
            break;
        }
        let event = traffic::event(nth, Callers::Everyone, hour)?;
        let enqueued = redis.enqueue(&event.encode(Utc::now())?).await?;
        ensure!(matches!(enqueued, Enqueued::Accepted { .. }), "{enqueued:?}");
        sent.events += 1;
        let cost = event.cost.context("every event of the bench has a cost")?;
        sent.cost = sent.cost.checked_add(cost).context("too much money")?;
    }
    Ok(sent)
}
