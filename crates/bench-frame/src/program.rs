//! What a bench is told, and what it hands in.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, Parser};

use crate::report::Report;
use crate::table;

/// The flag without which nothing is measured: `cargo test --all-targets` and a bare `cargo bench` run benches too.
const MEASURE: &str = "--measure";

#[derive(Debug, Parser)]
#[command(about = "Measures on servers of its own", max_term_width = 110)]
struct Cli<A: Args> {
    /// Measure; without it, nothing happens
    #[arg(long, required = true)]
    measure: bool,
    /// Fewer and shorter rounds: figures to look at, not to publish
    #[arg(long)]
    quick: bool,
    /// Write everything, each round included, to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// What cargo says to every bench
    #[arg(long, hide = true)]
    bench: bool,
    #[command(flatten)]
    own: A,
}

/// A bench without flags of its own.
#[derive(Debug, Args)]
pub struct NoOptions {}

/// What a bench was asked for.
#[derive(Debug)]
pub struct Asked<A = NoOptions> {
    /// Fewer and shorter rounds.
    pub quick: bool,
    /// The bench's own flags.
    pub own: A,
    json: Option<PathBuf>,
}

/// Reads the command line; none when nothing is to be measured, which is said on standard error. A command line that cannot be
/// understood ends the process.
#[must_use]
pub fn asked<A: Args>(bench: &str) -> Option<Asked<A>> {
    if !std::env::args().any(|argument| argument == MEASURE) {
        eprintln!("{bench}: measured by `cargo xtask bench {bench}` only");
        return None;
    }
    let cli = Cli::parse();
    Some(Asked { quick: cli.quick, own: cli.own, json: cli.json })
}

impl<A> Asked<A> {
    /// Prints the table, and writes the JSON where it was asked for.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn hand_in(&self, report: &Report, rounds: usize) -> Result<()> {
        print!("{}", table::of(report));
        let Some(file) = &self.json else { return Ok(()) };
        let text = serde_json::to_string_pretty(&report.to_json(self.quick, rounds))?;
        std::fs::write(file, text + "\n").with_context(|| format!("writing {}", file.display()))
    }
}
