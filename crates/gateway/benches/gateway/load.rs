//! Two kinds of load: requests that come when they come, and as many as can be.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::client::Target;
use crate::shape::{Shape, Upstream};

/// Until the first request of a load.
const LEAD: Duration = Duration::from_millis(20);
/// Of the requests of a load, one in so many at its begin finds connections that nobody has used yet; these do not count.
const WARM: usize = 10;

/// Milliseconds from when a request should have been sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Latency {
    /// To the first text of a stream.
    pub(crate) first: f64,
    pub(crate) end: f64,
}

/// When requests come: as many as the rate says, independently of each other, so with exponential gaps.
pub(crate) fn arrivals(rate: f64, time: Duration, seed: u64) -> Vec<Duration> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut at = 0.0;
    let gaps = std::iter::repeat_with(|| -(1.0 - random.random::<f64>()).ln() / rate);
    let times = gaps.map(|gap| {
        at += gap;
        Duration::from_secs_f64(at)
    });
    times.take_while(|at| *at < time).collect()
}

/// Sends at these times whatever the answers take. A request that is sent late, because the client or anything else stalls,
/// counts from when it was due.
pub(crate) async fn open(target: Arc<Target>, shape: Shape, arrivals: Vec<Duration>) -> Result<Vec<Latency>> {
    let (tell, mut told) = mpsc::unbounded_channel();
    let warm = arrivals.len() / WARM;
    // Timers of the runtime go by the millisecond.
    let pacer = thread::Builder::new().name("pacer".to_owned()).spawn(move || {
        let start = Instant::now() + LEAD;
        for due in arrivals.into_iter().map(|after| start + after) {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if tell.send(due).is_err() {
                return;
            }
        }
    })?;
    let mut tasks = JoinSet::new();
    let mut nth = 0;
    while let Some(due) = told.recv().await {
        let (target, counts) = (Arc::clone(&target), nth >= warm);
        nth += 1;
        tasks.spawn(async move {
            let seen = target.ask(shape, Upstream::Usual).await?;
            let since = |at: Instant| at.saturating_duration_since(due).as_secs_f64() * 1_000.0;
            anyhow::Ok(counts.then(|| Latency { first: since(seen.first), end: since(seen.end) }))
        });
    }
    let mut latencies = Vec::new();
    while let Some(done) = tasks.join_next().await {
        latencies.extend(done??);
    }
    pacer.join().ok().context("the pacer died")?;
    Ok(latencies)
}

/// Callers each of whom asks again as soon as it has its answer, by turns of targets and shapes, until the time is over or so
/// many are answered. Returns how many were, and in which time.
pub(crate) async fn closed(
    turns: Vec<(Arc<Target>, Shape)>,
    upstream: Upstream,
    callers: u64,
    time: Duration,
    most: u64,
) -> Result<(u64, Duration)> {
    let (turns, next) = (Arc::new(turns), Arc::new(AtomicU64::new(0)));
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..callers {
        let (turns, next) = (Arc::clone(&turns), Arc::clone(&next));
        tasks.spawn(async move {
            let mut answered = 0;
            while began.elapsed() < time {
                let nth = next.fetch_add(1, Ordering::Relaxed);
                if nth >= most {
                    break;
                }
                let (target, shape) = &turns[usize::try_from(nth)? % turns.len()];
                target.ask(*shape, upstream).await?;
                answered += 1;
            }
            anyhow::Ok(answered)
        });
    }
    let mut answered = 0;
    while let Some(done) = tasks.join_next().await {
        answered += done??;
    }
    Ok((answered, began.elapsed()))
}
