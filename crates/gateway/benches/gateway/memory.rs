//! The gateway's memory over many requests.

use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, ensure};
use bench_frame::plot::{Line, Panel};
use bench_frame::report::{Bound, Figure, Section, Series};

use crate::effort::Effort;
use crate::load::closed;
use crate::shape::{Shape, Upstream};
use crate::stack::Stack;

/// The last quarter against the second: memory that grows with what was done would be a leak.
const FLAT: Bound = Bound::Between(0.9, 1.1);
const EVERY: Duration = Duration::from_millis(20);
const CALLERS: u64 = 64;
/// Longer than it can take.
const GIVE_UP: Duration = Duration::from_secs(1_200);

/// One look.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    /// Answers since the first look.
    answers: u64,
    /// MiB.
    rss: f64,
}

pub(crate) fn measure(stack: &Stack, effort: Effort) -> Result<(Section, Vec<Sample>)> {
    let turns = [&stack.unbudgeted, &stack.budgeted]
        .into_iter()
        .flat_map(|target| Shape::ALL.map(|shape| (Arc::clone(target), shape)))
        .collect();
    let (gateway, before) = (stack.gateway.process(), stack.answers());
    let load = stack.runtime().spawn(closed(turns, Upstream::Immediate, CALLERS, GIVE_UP, effort.requests));
    let mut samples = Vec::new();
    while !load.is_finished() {
        samples.push(Sample { answers: stack.answers() - before, rss: gateway.rss()? });
        sleep(EVERY);
    }
    let (answered, took) = stack.runtime().block_on(load)??;
    ensure!(answered == effort.requests, "{answered} of {} answered", effort.requests);

    let quarter = |nth: u64| {
        let within = (answered * (nth - 1) / 4)..(answered * nth / 4);
        let of: Vec<f64> = samples.iter().filter(|s| within.contains(&s.answers)).map(|s| s.rss).collect();
        of.iter().sum::<f64>() / of.len() as f64
    };
    let (second, last) = (quarter(2), quarter(4));
    eprintln!("memory: {last:.1} MiB in the last quarter, {second:.1} MiB in the second");
    let most = samples.iter().map(|sample| sample.rss).fold(0.0, f64::max);
    let mut base = Series::default();
    base.push(second);
    let mut section = Section::new(
        "Memory",
        "resident memory of the gateway each 20 ms from /proc; plain and stream, with budgets and without, in turn",
    );
    let rate = answered as f64 / took.as_secs_f64();
    section.push(Figure::once("requests", "", answered as f64).note(format!("{rate:.0}/s")));
    section.push(Figure::once("resident memory, most", "MiB", most));
    section.push(
        Figure::once("resident memory, last quarter", "MiB", last)
            .against("second quarter", &base, Some(FLAT))
            .note(format!("{second:.1} MiB")),
    );
    Ok((section, samples))
}

pub(crate) fn panel(samples: &[Sample]) -> Panel<'static> {
    let points = samples.iter().map(|sample| (sample.answers as f64 / 1_000.0, sample.rss)).collect();
    Panel {
        title: "Resident memory of the gateway",
        across: "thousand requests",
        up: "MiB",
        lines: vec![Line { label: "gateway", points }],
    }
}
