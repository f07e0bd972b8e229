//! How long an event takes into the ledger, at a steady rate.
//!
//! From just before the call that enqueues it until a session that has nothing to do with the flusher sees it: that is what
//! somebody waits who reads the ledger after a call. `flush_log` is polled, whose row of a batch is committed in the
//! transaction of the batch's events, so it is seen when they are. Its `committed_at` would not do: it is the committer's clock
//! at the begin of a step, before the batch is even read. The flusher's own histograms would not do either: they begin when a
//! batch is peeked, and an event waits before that.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bench_frame::report::{Bound, Figure, Section};
use bench_frame::traffic::{self, Callers};
use chrono::Utc;
use live_redis::{LiveRedis, Options};
use spend_queue::{Enqueued, SpendQueue};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use crate::books::Books;
use crate::effort::Effort;
use crate::process::FlusherProcess;
use crate::stack::Stack;

/// Between two events: 500 a second.
const BETWEEN: Duration = Duration::from_millis(2);
/// Between two looks; a latency is so much too long at most.
const POLL: Duration = Duration::from_millis(5);
/// Milliseconds, of 99 in 100 events.
const P99: Bound = Bound::AtMost(2_000.0);
const GIVE_UP: Duration = Duration::from_secs(30);

/// The section, and every latency in milliseconds, shortest first.
pub(crate) fn measure(stack: &Stack, effort: Effort) -> Result<(Section, Vec<f64>)> {
    let flusher = FlusherProcess::start(stack)?;
    let redis = stack.block_on(stack.client(Options::default()))?;
    let events = usize::try_from(effort.steady.as_micros() / BETWEEN.as_micros())?;
    // The first events find connections, scripts and statements that nobody has used yet; they are not counted.
    let warm = events / 10;
    let poller = Poller::start(stack)?;
    let mut sent = stack.block_on(send(&redis, warm + events))?;
    let last = sent.iter().map(|(seq, _)| *seq).max().context("nothing was sent")?;
    let seen = poller.wait_for(last)?;
    let (_, code) = flusher.terminate()?;
    ensure!(code == Some(0), "the flusher ended with {code:?}");

    sent.sort_unstable();
    let mut latencies = Vec::with_capacity(events);
    for (seq, asked) in sent.into_iter().skip(warm) {
        let at = seen.partition_point(|(up_to, _)| *up_to < seq);
        let (_, visible) = seen.get(at).context("an event was never seen")?;
        latencies.push(visible.duration_since(asked).as_secs_f64() * 1_000.0);
    }
    latencies.sort_by(f64::total_cmp);
    let commits = seen.len() as f64 / (BETWEEN * u32::try_from(warm + events)?).as_secs_f64();
    let mut section = Section::new(
        "Latency",
        "500 events/s, defaults; from before the enqueue until another session sees the event, polled each 5 ms",
    );
    for (name, share, required) in
        [("half of the events", 0.5, None), ("99 in 100", 0.99, Some(P99)), ("all", 1.0, None)]
    {
        let figure = Figure::once(name, "ms", percentile(&latencies, share));
        let figure = figure.note(format!("of {} events", latencies.len()));
        section.push(if let Some(bound) = required { figure.required(bound) } else { figure });
    }
    section.push(Figure::once("commits", "/s", commits).note("as many as the poll could tell apart"));
    eprintln!("latency: 99 in 100 within {:.0} ms", percentile(&latencies, 0.99));
    Ok((section, latencies))
}

/// Of sorted values, the one that this share of them does not exceed.
pub(crate) fn percentile(sorted: &[f64], share: f64) -> f64 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in a list in memory")]
    let place = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(place.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

/// Sends at a steady rate whatever the answers take; sequence number and time of each.
async fn send(redis: &LiveRedis, events: usize) -> Result<Vec<(u64, Instant)>> {
    let mut tasks = JoinSet::new();
    let mut tick = interval(BETWEEN);
    tick.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let hour = Utc::now();
    for nth in 0..events {
        tick.tick().await;
        let event = traffic::event(nth, Callers::Everyone, hour)?.encode(Utc::now())?;
        let redis = redis.clone();
        tasks.spawn(async move {
            let asked = Instant::now();
            match redis.enqueue(&event).await? {
                Enqueued::Accepted { seq, .. } => Ok((seq, asked)),
                other => bail!("{other:?}"),
            }
        });
    }
    let mut sent = Vec::with_capacity(events);
    while let Some(done) = tasks.join_next().await {
        sent.push(done??);
    }
    Ok(sent)
}

/// Up to which sequence number everything is settled, and when that was seen.
type Seen = Vec<(u64, Instant)>;

struct Poller {
    stop: Arc<AtomicBool>,
    last: Arc<AtomicU64>,
    thread: JoinHandle<Result<Seen>>,
}

impl Poller {
    fn start(stack: &Stack) -> Result<Self> {
        let mut books = Books::connect(stack.database_url())?;
        let (stop, last) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, tell) = (stop.clone(), last.clone());
        let thread = thread::spawn(move || {
            let mut seen = Seen::new();
            while !stopped.load(Ordering::Relaxed) {
                let up_to = books.settled_up_to()?;
                if let Some(up_to) =
                    up_to.filter(|up_to| seen.last().is_none_or(|(before, _)| before < up_to))
                {
                    seen.push((up_to, Instant::now()));
                    tell.store(up_to, Ordering::Relaxed);
                }
                thread::sleep(POLL);
            }
            Ok(seen)
        });
        Ok(Self { stop, last, thread })
    }

    fn wait_for(self, seq: u64) -> Result<Seen> {
        let asked = Instant::now();
        while self.last.load(Ordering::Relaxed) < seq && !self.thread.is_finished() {
            ensure!(asked.elapsed() < GIVE_UP, "entry {seq} is not settled after {GIVE_UP:?}");
            thread::sleep(POLL);
        }
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().ok().context("the poller died")?
    }
}
