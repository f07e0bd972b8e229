//! What a request costs on its way through the gateway: its process with private servers, a mock upstream and a load of its own.
//!
//! `cargo xtask bench gateway` runs it; `docs/performance.md` explains the figures.

mod books;
mod child;
mod client;
mod effort;
mod load;
mod memory;
mod meter;
mod overhead;
mod saturation;
mod servers;
mod shape;
mod stack;
mod tenant;

use std::path::PathBuf;

use anyhow::Result;
use bench_frame::report::Report;
use bench_frame::{machine, plot, program};

use crate::effort::Effort;
use crate::stack::Stack;

/// The bench's own flags.
#[derive(Debug, clap::Args)]
struct Own {
    /// Draw latencies and memory to this SVG file
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

fn main() -> Result<()> {
    let Some(asked) = program::asked::<Own>("gateway") else { return Ok(()) };
    let effort = Effort::of(asked.quick);
    let flusher = books::flusher()?;
    let stack = Stack::start()?;
    let mut report = Report::new("gateway", machine::describe(&stack.servers.describe()?));

    let (sections, latencies) = overhead::measure(&stack, effort)?;
    for section in sections {
        report.add(section);
    }
    let mut saturation = saturation::measure(&stack, effort)?;
    let (memory, samples) = memory::measure(&stack, effort)?;
    let flusher = books::settle(&stack, &flusher)?;
    saturation::with_flusher(&stack, effort, &mut saturation)?;
    report.add(saturation);
    report.add(memory);
    report.add(books::prove(stack, flusher)?);

    report.machine["load_at_end"] = machine::load().into();
    if let Some(file) = &asked.own.plot {
        plot::draw(file, &[latencies.plain(), latencies.first_token(), memory::panel(&samples)])?;
    }
    asked.hand_in(&report, effort.rounds)
}
