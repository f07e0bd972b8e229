//! A backlog, and how fast and in how much memory one flusher takes it down.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bench_frame::report::{Bound, Figure, Section, Series};
use live_redis::Options;

use crate::books::Books;
use crate::effort::Effort;
use crate::gateways::Gateways;
use crate::hot::Hot;
use crate::process::FlusherProcess;
use crate::stack::Stack;

/// Events a second, the servers on the same two cores.
const RATE: Bound = Bound::AtLeast(15_000.0);
/// MiB.
const RSS: Bound = Bound::AtMost(128.0);
/// The last quarter against the second: memory that grows with what was done would be a leak.
const FLAT: Bound = Bound::Between(0.9, 1.1);
const EVERY: Duration = Duration::from_millis(100);
/// A stop of all progress for so long fails the bench.
const GIVE_UP: Duration = Duration::from_secs(60);

const BARE: &str = "bare commits of the same rows";

/// One look at the flusher.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    /// Seconds since its start.
    pub(crate) at: f64,
    pub(crate) settled: u64,
    /// MiB.
    pub(crate) rss: f64,
}

pub(crate) struct Drained {
    pub(crate) section: Section,
    pub(crate) samples: Vec<Sample>,
    /// Still running, with nothing left to do.
    pub(crate) flusher: FlusherProcess,
}

pub(crate) fn measure(stack: &Stack, bare: f64, effort: Effort) -> Result<Drained> {
    let filling = Instant::now();
    let sent = Gateways::start(stack, effort.events)?.join(stack)?;
    ensure!(sent.events == effort.events, "{sent:?}");
    let enqueued = sent.events as f64 / filling.elapsed().as_secs_f64();
    eprintln!("backlog: {} events enqueued, {enqueued:.0}/s", sent.events);

    let (mut hot, mut books) = (Hot::connect(stack.redis_url())?, Books::connect(stack.database_url())?);
    let redis = stack.block_on(stack.client(Options::default()))?;
    let hot_before = hot.cpu()?;
    let flusher = FlusherProcess::start(stack)?;
    let mut samples = vec![Sample { at: 0.0, settled: 0, rss: flusher.rss()? }];
    let mut moved = Instant::now();
    let elapsed = loop {
        sleep(EVERY);
        let (rss, settled) = (flusher.rss()?, books.settled()?);
        let elapsed = flusher.started().elapsed();
        if samples.last().is_some_and(|last| last.settled < settled) {
            moved = Instant::now();
        }
        samples.push(Sample { at: elapsed.as_secs_f64(), settled, rss });
        if settled == sent.events as u64 && stack.depth(&redis)? == 0 {
            break elapsed;
        }
        ensure!(moved.elapsed() < GIVE_UP, "{settled} of {} settled, and no more", sent.events);
    };
    stack.prove(&redis, sent.events, sent.cost)?;
    let each = |spent: Duration| spent.as_secs_f64() * 1e6 / sent.events as f64;
    let (flusher_cpu, hot_cpu) = (each(flusher.cpu()?), each(hot.cpu()?.saturating_sub(hot_before)));
    let rate = sent.events as f64 / elapsed.as_secs_f64();
    eprintln!("backlog: settled, {rate:.0}/s");

    let mut section = Section::new(
        "Backlog",
        "from the process's start until queue and ledger agree; memory each 100 ms from /proc",
    );
    let (mut base, mut series) = (Series::default(), Series::default());
    base.push(bare);
    series.push(rate);
    section
        .push(Figure::once("enqueued by 4 gateways", "/s", enqueued).note(format!("{} events", sent.events)));
    section.push(Figure::new(BARE, "/s", base.clone()));
    let phases = flusher.phases()?;
    let note = format!("processor time an event: flusher {flusher_cpu:.1} us, Redis {hot_cpu:.1} us");
    section.push(Figure::new("settled", "/s", series).against(BARE, &base, None).required(RATE).note(note));
    for (phase, seconds) in phases {
        let each = seconds * 1e6 / sent.events as f64;
        let share = seconds / elapsed.as_secs_f64() * 100.0;
        section.push(
            Figure::once(format!("{phase}, an event"), "us", each).note(format!("{share:.0} % of the time")),
        );
    }
    for figure in memory(&samples, flusher.peak_rss()?) {
        section.push(figure);
    }
    Ok(Drained { section, samples, flusher })
}

fn memory(samples: &[Sample], peak: f64) -> [Figure; 2] {
    // The kernel brings its own peak up to date now and then only.
    let most = samples.iter().map(|sample| sample.rss).fold(peak, f64::max);
    let end = samples.last().map_or(0.0, |last| last.at);
    let mean_of = |quarter: f64| {
        let within = (end * (quarter - 1.0) / 4.0)..(end * quarter / 4.0);
        let of: Vec<f64> = samples.iter().filter(|s| within.contains(&s.at)).map(|s| s.rss).collect();
        of.iter().sum::<f64>() / of.len() as f64
    };
    let (second, last) = (mean_of(2.0), mean_of(4.0));
    let mut base = Series::default();
    base.push(second);
    [
        Figure::once("resident memory, most", "MiB", most).required(RSS),
        Figure::once("resident memory, last quarter", "MiB", last)
            .against("second quarter", &base, Some(FLAT))
            .note(format!("{second:.1} MiB")),
    ]
}
