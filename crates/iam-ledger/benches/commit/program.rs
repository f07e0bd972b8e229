//! The frame of the bench: options, the server, the report's two forms.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Parser;
use devstack::PostgresServer;

use crate::report::Report;
use crate::{machine, table, ways};

/// The flag without which nothing is measured: `cargo test --all-targets` and a bare `cargo bench` run this too.
const MEASURE: &str = "--measure";

#[derive(Debug, Parser)]
#[command(about = "Measures commits on a PostgreSQL server of its own", max_term_width = 110)]
struct Cli {
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
}

/// How much to measure in one round, in how many rounds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    /// Rounds; the median counts.
    pub(crate) rounds: usize,
    /// Events of a round, one transaction each.
    pub(crate) single_events: usize,
    /// Events of a round in batches, but at least two batches.
    pub(crate) batched_events: usize,
}

impl Effort {
    const fn of(quick: bool) -> Self {
        match quick {
            true => Self { rounds: 3, single_events: 200, batched_events: 5_000 },
            false => Self { rounds: 7, single_events: 1_000, batched_events: 20_000 },
        }
    }
}

pub(crate) fn run() -> Result<()> {
    if !std::env::args().any(|argument| argument == MEASURE) {
        eprintln!("commit: measured by `cargo xtask bench commit` only");
        return Ok(());
    }
    let cli = Cli::parse();
    let effort = Effort::of(cli.quick);
    // Durable as it comes; a checkpoint in the middle of a round would fall on one way and not on the others.
    let server = PostgresServer::builder()
        .setting("max_wal_size", "8GB")
        .setting("checkpoint_timeout", "30min")
        .start()
        .context("the bench needs a PostgreSQL server of its own")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let report = runtime.block_on(async {
        let described = machine::describe(server.url()).await?;
        let report = Report::new("commit", described);
        Box::pin(ways::measure(&server, effort, report)).await
    })?;
    print!("{}", table::of(&report));
    if let Some(file) = cli.json {
        let text = serde_json::to_string_pretty(&report.to_json(cli.quick, effort.rounds))?;
        std::fs::write(&file, text + "\n").with_context(|| format!("writing {}", file.display()))?;
    }
    Ok(())
}
