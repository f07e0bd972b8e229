//! The frame of a bench: options, servers, pinning, the report's two forms.
//!
//! A bench is a program and not a harness, because a figure comes from the server's own counters or from a loaded
//! connection, and because what lasts on a noisy machine is the ratio of two figures whose rounds alternate.

use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use devstack::RedisServer;

use super::machine;
use super::report::Report;
use super::server::Server;
use super::table;

/// The flag without which nothing is measured: `cargo test --all-targets` and a bare `cargo bench` run this too.
const MEASURE: &str = "--measure";

#[derive(Debug, Parser)]
#[command(about = "Measures on Redis servers of its own", max_term_width = 110)]
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

/// How long and how often to measure.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    /// Rounds; the median counts.
    pub(crate) rounds: usize,
    /// Length of one throughput measurement.
    pub(crate) span: Duration,
    /// Calls of the fast path in one round of server time.
    pub(crate) calls: usize,
    quick: bool,
}

impl Effort {
    fn of(quick: bool) -> Self {
        match quick {
            true => Self { rounds: 3, span: Duration::from_millis(250), calls: 2_000, quick },
            false => Self { rounds: 5, span: Duration::from_secs(1), calls: 10_000, quick },
        }
    }

    /// Whether to leave out what takes long to prepare.
    pub(crate) const fn is_quick(self) -> bool {
        self.quick
    }
}

/// Starts so many servers, adds to the report what `measure` finds on them, and prints it.
///
/// A server for each kind of measurement, so that none inherits another's heap. Only one may work at a time.
pub(crate) fn run<const SERVERS: usize, F>(
    bench: &'static str,
    measure: impl FnOnce([String; SERVERS], Effort, Report) -> F,
) -> Result<()>
where
    F: Future<Output = Result<Report>> + Send + 'static,
{
    if !std::env::args().any(|argument| argument == MEASURE) {
        eprintln!("{bench}: measured by `cargo xtask bench {bench}` only");
        return Ok(());
    }
    let cli = Cli::parse();
    let effort = Effort::of(cli.quick);
    let mut servers = Vec::with_capacity(SERVERS);
    for _ in 0..SERVERS {
        servers.push(RedisServer::builder().start().context("the bench needs Redis servers of its own")?);
    }
    let urls: [String; SERVERS] = std::array::from_fn(|at| servers[at].url().to_owned());
    // One worker: client and server get a core each where there are only two.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let empty = runtime.block_on(pinned(bench, &urls))?;
    let measured = runtime.spawn(measure(urls, effort, empty));
    let report = runtime.block_on(measured).context("the measurement died")??;

    print!("{}", table::of(&report));
    if let Some(file) = cli.json {
        let text = serde_json::to_string_pretty(&report.to_json(cli.quick, effort.rounds))?;
        std::fs::write(&file, text + "\n").with_context(|| format!("writing {}", file.display()))?;
    }
    Ok(())
}

/// A report that knows the machine, with client and servers on their cores.
async fn pinned(bench: &'static str, urls: &[String]) -> Result<Report> {
    let mut processes = Vec::new();
    let mut version = String::new();
    for url in urls {
        let server = Server::connect(url).await?;
        processes.push(server.process().await?);
        version = server.version().await?;
    }
    // Described first: afterwards this process sees one core only.
    let mut described = machine::describe(&version);
    described["pinned"] = machine::pin(&processes).into();
    Ok(Report::new(bench, described))
}
