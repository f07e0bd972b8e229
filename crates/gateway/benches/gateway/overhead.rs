//! What the gateway adds to an answer, at rates that leave room.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use bench_frame::plot::{Line, Panel};
use bench_frame::report::{Bound, Figure, Section, Series, percentile};

use crate::client::Target;
use crate::effort::Effort;
use crate::load::{Latency, arrivals, open};
use crate::shape::Shape;
use crate::stack::Stack;

/// Milliseconds, at [`FAST`].
const P50: Bound = Bound::AtMost(2.0);
const P99: Bound = Bound::AtMost(10.0);
/// Requests a second.
const SLOW: f64 = 50.0;
const FAST: f64 = 500.0;

/// Whom a load goes to; the first is the baseline.
const TARGETS: [&str; 3] = ["mock alone", "no budget", "budgets"];
const HOW: &str = "milliseconds more than the mock alone by percentile, the same arrivals at both in turn; from when a request was due";

/// A moment of an answer, and how it is read.
struct Moment {
    shape: Shape,
    name: &'static str,
    of: fn(&Latency) -> f64,
}

const MOMENTS: [Moment; 3] = [
    Moment { shape: Shape::Plain, name: "plain", of: |latency| latency.end },
    Moment { shape: Shape::Stream, name: "stream, first token", of: |latency| latency.first },
    Moment { shape: Shape::Stream, name: "stream, end", of: |latency| latency.end },
];

/// Latencies of all rounds at the fast rate, by moment and target, shortest first.
pub(crate) struct Latencies(Vec<[Vec<f64>; TARGETS.len()]>);

/// Sections of the two rates.
pub(crate) fn measure(stack: &Stack, effort: Effort) -> Result<([Section; 2], Latencies)> {
    let (slow, _) =
        at_rate(stack, effort, SLOW, effort.slow, Section::new("Overhead at 50 requests/s", HOW))?;
    let section = Section::new("Overhead at 500 requests/s", HOW);
    let (fast, latencies) = at_rate(stack, effort, FAST, effort.fast, section)?;
    Ok(([slow, fast], latencies))
}

fn at_rate(
    stack: &Stack,
    effort: Effort,
    rate: f64,
    time: Duration,
    mut section: Section,
) -> Result<(Section, Latencies)> {
    let mut rounds = Vec::new();
    for round in 0..effort.rounds {
        rounds.push(one_round(stack, rate, time, round)?);
    }
    let mut all = Vec::new();
    for (nth, moment) in MOMENTS.iter().enumerate() {
        for (share, label, bound) in [(0.5, "p50", P50), (0.99, "p99", P99)] {
            let of = |target: usize| -> Vec<f64> {
                rounds.iter().map(|round| percentile(&round[nth][target], share)).collect()
            };
            let alone = of(0);
            for (target, called) in TARGETS.iter().enumerate().skip(1) {
                let ours = of(target);
                let mut added = Series::default();
                ours.iter().zip(&alone).for_each(|(ours, alone)| added.push(ours - alone));
                let name = format!("{}, {}: {label}", moment.name, called);
                let note = format!("{:.2} ms, alone {:.2} ms", median(&ours), median(&alone));
                let figure = Figure::new(name, "ms", added).note(note);
                section.push(if rate < FAST { figure } else { figure.required(bound) });
            }
        }
        all.push(std::array::from_fn(|target| {
            let mut values: Vec<f64> = rounds.iter().flat_map(|round| &round[nth][target]).copied().collect();
            values.sort_by(f64::total_cmp);
            values
        }));
    }
    Ok((section, Latencies(all)))
}

/// Of one round: by moment and target, shortest first.
type Round = Vec<[Vec<f64>; TARGETS.len()]>;

fn one_round(stack: &Stack, rate: f64, time: Duration, round: usize) -> Result<Round> {
    let targets: [&Arc<Target>; TARGETS.len()] = [&stack.alone, &stack.unbudgeted, &stack.budgeted];
    let mut found: Round = MOMENTS.iter().map(|_| Default::default()).collect();
    for shape in Shape::ALL {
        let times = arrivals(rate, time, round as u64 + 1);
        for turn in 0..targets.len() {
            // None is always first.
            let target = (turn + round) % targets.len();
            let latencies = stack.run(open(Arc::clone(targets[target]), shape, times.clone()))?;
            for (nth, moment) in MOMENTS.iter().enumerate().filter(|(_, moment)| moment.shape == shape) {
                let mut values: Vec<f64> = latencies.iter().map(moment.of).collect();
                values.sort_by(f64::total_cmp);
                found[nth][target] = values;
            }
        }
        for (nth, moment) in MOMENTS.iter().enumerate().filter(|(_, moment)| moment.shape == shape) {
            let [alone, ours, budgeted] = &found[nth];
            let at = |share| [alone, ours, budgeted].map(|values| percentile(values, share));
            eprintln!("{rate}/s, {}: p50 {:.2?} ms, p99 {:.2?} ms", moment.name, at(0.5), at(0.99));
        }
    }
    Ok(found)
}

fn median(values: &[f64]) -> f64 {
    let mut series = Series::default();
    values.iter().for_each(|value| series.push(*value));
    series.median()
}

impl Latencies {
    pub(crate) fn plain(&self) -> Panel<'static> {
        self.panel(0, "500 plain requests/s: until the answer")
    }

    pub(crate) fn first_token(&self) -> Panel<'static> {
        self.panel(1, "500 streams/s: until the first token")
    }

    fn panel(&self, moment: usize, title: &'static str) -> Panel<'static> {
        // The last percent is mostly the machine's, and would hide the rest.
        let points = |values: &Vec<f64>| {
            (0..=198_u8)
                .map(|half| (f64::from(half) / 2.0, percentile(values, f64::from(half) / 200.0)))
                .collect()
        };
        let lines = TARGETS.iter().zip(&self.0[moment]);
        Panel {
            title,
            across: "percent of the requests",
            up: "ms, at most",
            lines: lines.map(|(label, values)| Line { label, points: points(values) }).collect(),
        }
    }
}
