//! What the deployed flusher must hold, measured on its process with private servers: a backlog, idleness, latency, stops.
//!
//! `cargo xtask bench flusher` runs it; `docs/performance.md` explains the figures.

mod backlog;
mod bare;
mod books;
mod effort;
mod gateways;
mod hot;
mod idle;
mod latency;
mod plot;
mod process;
mod stack;
mod stop;

use std::path::PathBuf;

use anyhow::{Context, Result};
use bench_frame::report::Report;
use bench_frame::{machine, program};

use crate::effort::Effort;
use crate::stack::Servers;

/// The bench's own flags.
#[derive(Debug, clap::Args)]
struct Own {
    /// Draw the backlog's course and the latencies to this SVG file
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

fn main() -> Result<()> {
    let Some(asked) = program::asked::<Own>("flusher") else { return Ok(()) };
    let effort = Effort::of(asked.quick);
    let servers = Servers::start()?;
    let mut report = Report::new("flusher", machine::describe(&servers.describe()?));

    let settled = bare::measure(&servers, effort)?;
    let stack = servers.stack("backlog")?;
    let drained = backlog::measure(&stack, settled, effort)?;
    report.add(drained.section);
    report.add(idle::measure(&stack, &drained.flusher, effort)?);
    // Its memory is Redis's again before the next begins.
    drop((drained.flusher, stack));
    let (section, latencies) = latency::measure(&servers.stack("latency")?, effort)?;
    report.add(section);
    report.add(stop::measure(&servers.stack("stop")?, effort)?);

    report.machine["load_at_end"] = machine::load().into();
    if let Some(file) = &asked.own.plot {
        plot::draw(file, &drained.samples, &latencies)
            .with_context(|| format!("drawing {}", file.display()))?;
    }
    asked.hand_in(&report, 1)
}
