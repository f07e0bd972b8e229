//! The frame of the bench: options, the server, the report's two forms.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Parser;
use devstack::PostgresServer;
use url::Url;

use crate::report::{Report, Section};
use crate::ways::Ways;
use crate::{machine, table};

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
            false => Self { rounds: 5, single_events: 500, batched_events: 10_000 },
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
        // In its data folder.
        .setting("unix_socket_directories", ".")
        .start()
        .context("the bench needs a PostgreSQL server of its own")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let report = runtime.block_on(async {
        let mut report = Report::new("commit", machine::describe(server.url()).await?);
        let tcp = Box::pin(Ways::new(&server, |url| Ok(url.to_owned()))).await?;
        for section in Box::pin(measure(tcp, &TCP, effort)).await? {
            report.add(section);
        }
        if let Some(folder) = server.folder() {
            let local = Box::pin(Ways::new(&server, |url| by_socket(url, folder))).await?;
            for section in Box::pin(measure(local, &LOCAL, effort)).await? {
                report.add(section);
            }
        }
        anyhow::Ok(report)
    })?;
    print!("{}", table::of(&report));
    if let Some(file) = cli.json {
        let text = serde_json::to_string_pretty(&report.to_json(cli.quick, effort.rounds))?;
        std::fs::write(&file, text + "\n").with_context(|| format!("writing {}", file.display()))?;
    }
    Ok(())
}

/// Sizes and titles of the sections.
type Sections = [(usize, &'static str)];

const TCP: [(usize, &str); 3] =
    [(100, "Batches of 100, TCP"), (1_000, "Batches of 1,000, TCP"), (5_000, "Batches of 5,000, TCP")];
/// Without the delays of the driver's TCP sockets.
const LOCAL: [(usize, &str); 2] =
    [(100, "Batches of 100, Unix socket"), (1_000, "Batches of 1,000, Unix socket")];

async fn measure(mut ways: Ways, sections: &Sections, effort: Effort) -> Result<Vec<Section>> {
    ways.measure(sections, effort).await
}

/// The same database by the server's Unix socket.
fn by_socket(url: &str, folder: &Path) -> Result<String> {
    let mut url = Url::parse(url)?;
    let socket = folder.join("data");
    url.query_pairs_mut().append_pair("host", &socket.to_string_lossy());
    Ok(url.into())
}
