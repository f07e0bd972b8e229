//! What a flusher costs that has nothing to do.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;
use bench_frame::report::{Bound, Figure, Section};

use crate::books::Books;
use crate::effort::Effort;
use crate::hot::Hot;
use crate::process::FlusherProcess;
use crate::stack::Stack;

/// Percent of one core.
const CPU: Bound = Bound::AtMost(1.0);
/// Commands a second.
const COMMANDS: Bound = Bound::AtMost(10.0);
/// Statements a second.
const STATEMENTS: Bound = Bound::AtMost(2.0);
/// The waits of an idle flusher take a second to become long.
const SETTLE: Duration = Duration::from_secs(2);

pub(crate) fn measure(stack: &Stack, flusher: &FlusherProcess, effort: Effort) -> Result<Section> {
    let mut hot = Hot::connect(stack.redis_url())?;
    let mut books = Books::connect(stack.outside_url())?;
    sleep(SETTLE);

    let started = Instant::now();
    let before = (flusher.cpu()?, hot.commands()?, books.statements(stack.database_name())?);
    sleep(effort.idle);
    let after = (flusher.cpu()?, hot.commands()?, books.statements(stack.database_name())?);
    let seconds = started.elapsed().as_secs_f64();

    let cpu = after.0.saturating_sub(before.0).as_secs_f64() / seconds * 100.0;
    let statements = f64::from(i32::try_from(after.2 - before.2)?) / seconds;
    let (mut commands, mut which) = (0.0, Vec::new());
    for (name, calls) in after.1 {
        let earlier = before.1.iter().find(|(earlier, _)| *earlier == name).map_or(0, |(_, calls)| *calls);
        let rate = f64::from(u32::try_from(calls - earlier)?) / seconds;
        if rate > 0.0 {
            which.push(format!("{name} {rate:.1}"));
        }
        commands += rate;
    }
    eprintln!("idle: {cpu:.2} % of a core, {commands:.1} commands/s, {statements:.1} statements/s");

    let mut section =
        Section::new("Idle", "after the backlog; the servers' own counters, the bench's calls not counted");
    section.push(Figure::once("processor time of the flusher", "%", cpu).required(CPU).note("of one core"));
    section.push(
        Figure::once("Redis commands, those in scripts too", "/s", commands)
            .required(COMMANDS)
            .note(which.join(", ")),
    );
    section.push(
        Figure::once("PostgreSQL statements", "/s", statements)
            .required(STATEMENTS)
            .note("pg_stat_statements"),
    );
    Ok(section)
}
