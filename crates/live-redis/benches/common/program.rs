//! The servers of a bench, and how long it may use them.

use std::future::Future;
use std::time::Duration;

use anyhow::{Context, Result};
use bench_frame::machine;
use bench_frame::program::{self, NoOptions};
use devstack::RedisServer;

use super::pinning;
use super::report::Report;
use super::server::Server;

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
    let Some(asked) = program::asked::<NoOptions>(bench) else { return Ok(()) };
    let effort = Effort::of(asked.quick);
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
    asked.hand_in(&report, effort.rounds)
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
    described["pinned"] = pinning::pin(&processes).into();
    Ok(Report::new(bench, described))
}
