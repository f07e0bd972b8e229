//! Stops under load: how long they take, and that nothing is lost or counted twice.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bench_frame::report::{Bound, Figure, Section};
use live_redis::Options;

use crate::books::Books;
use crate::effort::Effort;
use crate::gateways::Gateways;
use crate::process::FlusherProcess;
use crate::stack::Stack;

/// Seconds from the signal to the end of the process.
const WITHIN: Bound = Bound::AtMost(5.0);
/// How long a flusher works before its end.
const AT_WORK: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(5);
const GIVE_UP: Duration = Duration::from_secs(120);

pub(crate) fn measure(stack: &Stack, effort: Effort) -> Result<Section> {
    let mut books = Books::connect(stack.database_url())?;
    let gateways = Gateways::start(stack, usize::MAX)?;
    let (mut took, mut clean) = (Vec::new(), 0.0);
    for nth in 1..=effort.stops {
        let before = books.settled()?;
        let flusher = FlusherProcess::start(stack)?;
        wait_until("a commit", || Ok(books.settled()? > before))?;
        // Batches have their full size by then, and each signal falls into another part of a step.
        sleep(AT_WORK + Duration::from_millis(u64::from(nth) * 53 % 200));
        let (time, code) = flusher.terminate()?;
        eprintln!("stop {nth}/{}: {time:.0?}, exit code {code:?}", effort.stops);
        took.push(time.as_secs_f64());
        clean += if code == Some(0) { 1.0 } else { 0.0 };
    }
    let sent = gateways.stop(stack)?;
    let redis = stack.block_on(stack.client(Options::default()))?;
    let left = stack.depth(&redis)?;
    ensure!(left > 0, "nothing was left to the next flusher: there was no load");
    let last = FlusherProcess::start(stack)?;
    wait_until("the queue's end", || Ok(stack.depth(&redis)? == 0))?;
    ensure!(last.terminate()?.1 == Some(0), "the last flusher");
    stack.prove(&redis, sent.events, sent.cost)?;

    took.sort_by(f64::total_cmp);
    let longest = took.last().copied().context("no stop was tried")?;
    let mut section = Section::new(
        "Stop",
        "SIGTERM while gateways enqueue at full speed; then the next flusher drains, and every sum is compared",
    );
    let note = format!("of {}; the middle one {:.3} s", took.len(), took[took.len() / 2]);
    section.push(Figure::once("longest time to exit", "s", longest).required(WITHIN).note(note));
    let all = Bound::AtLeast(f64::from(effort.stops));
    section.push(Figure::once("exits with code 0", "", clean).required(all));
    section.push(
        Figure::once("events settled exactly once", "", sent.events as f64)
            .note(format!("{} USD; {left} were queued after the last stop", sent.cost)),
    );
    Ok(section)
}

fn wait_until(what: &str, mut done: impl FnMut() -> Result<bool>) -> Result<()> {
    let asked = Instant::now();
    while !done()? {
        ensure!(asked.elapsed() < GIVE_UP, "{what} did not come within {GIVE_UP:?}");
        sleep(POLL);
    }
    Ok(())
}
