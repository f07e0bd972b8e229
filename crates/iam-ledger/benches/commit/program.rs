//! The server of the bench, and how much to measure on it.

use std::path::Path;

use anyhow::{Context, Result};
use bench_frame::program::{self, NoOptions};
use devstack::PostgresServer;
use url::Url;

use crate::machine;
use crate::report::{Report, Section};
use crate::ways::Ways;

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
    let Some(asked) = program::asked::<NoOptions>("commit") else { return Ok(()) };
    let effort = Effort::of(asked.quick);
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
    asked.hand_in(&report, effort.rounds)
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
