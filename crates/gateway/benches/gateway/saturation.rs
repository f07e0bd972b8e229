//! The most that the gateway does on a machine that it shares with everything else, and who works how much for it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use bench_frame::report::{Bound, Figure, Section, Series};

use crate::client::Target;
use crate::effort::Effort;
use crate::load::closed;
use crate::meter::{Meter, WHO};
use crate::shape::{Shape, Upstream};
use crate::stack::Stack;

/// Requests a second.
const RATE: Bound = Bound::AtLeast(2_000.0);
/// Enough that somebody always waits.
const CALLERS: u64 = 64;

const ALONE: &str = "mock alone";

/// Rounds of one load: requests a second, and microseconds of processor time a request.
#[derive(Default)]
struct Rounds {
    rate: Series,
    cost: [Series; WHO.len()],
}

pub(crate) fn measure(stack: &Stack, effort: Effort) -> Result<Section> {
    let mut section = Section::new(
        "Saturation",
        "64 callers, each of whom asks again at once; the mock answers at once; all on the same cores",
    );
    let loads: [(&str, &Arc<Target>, Shape); 4] = [
        (ALONE, &stack.alone, Shape::Plain),
        ("plain, no budget", &stack.unbudgeted, Shape::Plain),
        ("plain, budgets", &stack.budgeted, Shape::Plain),
        ("streams of 16 tokens, no budget", &stack.unbudgeted, Shape::Stream),
    ];
    let mut found: [Rounds; 4] = Default::default();
    for _ in 0..effort.rounds {
        for ((name, target, shape), rounds) in loads.iter().zip(&mut found) {
            one_round(stack, target, *shape, effort.saturated, rounds)?;
            eprintln!("saturation, {name}: {:.0}/s", rounds.rate.last());
        }
    }
    let alone = found[0].rate.clone();
    for ((name, _, shape), rounds) in loads.iter().zip(&found) {
        let figure = Figure::new(*name, "/s", rounds.rate.clone()).note(costs(rounds));
        section.push(match (*name, shape) {
            (ALONE, _) => figure,
            (_, Shape::Stream) => figure,
            (_, Shape::Plain) => figure.against(ALONE, &alone, None).required(RATE),
        });
    }
    for ((name, ..), rounds) in loads.iter().zip(&found).skip(1) {
        section.push(a_core(name, rounds));
    }
    Ok(section)
}

/// The same once more, with a flusher that carries the bills away meanwhile.
pub(crate) fn with_flusher(stack: &Stack, effort: Effort, section: &mut Section) -> Result<()> {
    let mut rounds = Rounds::default();
    for _ in 0..effort.rounds {
        one_round(stack, &stack.unbudgeted, Shape::Plain, effort.saturated, &mut rounds)?;
    }
    let note = costs(&rounds);
    section.push(Figure::new("plain, no budget, a flusher at work", "/s", rounds.rate).note(note));
    Ok(())
}

fn one_round(
    stack: &Stack,
    target: &Arc<Target>,
    shape: Shape,
    time: Duration,
    rounds: &mut Rounds,
) -> Result<()> {
    let turns = || vec![(Arc::clone(target), shape)];
    stack.run(closed(turns(), Upstream::Immediate, CALLERS, time / 5, u64::MAX))?;
    let before = Meter::read(stack)?;
    let (answered, took) = stack.run(closed(turns(), Upstream::Immediate, CALLERS, time, u64::MAX))?;
    let costs = Meter::read(stack)?.since(before, answered);
    rounds.rate.push(answered as f64 / took.as_secs_f64());
    rounds.cost.iter_mut().zip(costs).for_each(|(series, cost)| series.push(cost));
    Ok(())
}

fn a_core(name: &str, rounds: &Rounds) -> Figure {
    let [gateway, ..] = &rounds.cost;
    let rate = 1e6 / gateway.median();
    Figure::once(format!("{name}: by the gateway's processor time"), "/s", rate)
        .note("a core of its own would do so many")
}

fn costs(rounds: &Rounds) -> String {
    let parts = WHO.iter().zip(&rounds.cost).map(|(who, cost)| format!("{who} {:.0}", cost.median()));
    format!("us of processor time a request: {}", parts.collect::<Vec<_>>().join(", "))
}
