//! How calls reach the server: one multiplexed connection, a pool, micro-batches, each against `redis-benchmark` in
//! the same run.
//!
//! `cargo xtask bench connections` runs it; `docs/performance.md` explains the figures.

mod benchmark;
#[path = "../common/mod.rs"]
mod common;
mod job;
mod ways;

use anyhow::Result;

use common::program::{self, Effort};
use common::report::Report;
use common::server::Server;

fn main() -> Result<()> {
    program::run("connections", measure)
}

async fn measure([url]: [String; 1], effort: Effort, mut report: Report) -> Result<Report> {
    report.add(ways::measure(&Server::connect(&url).await?, effort).await?);
    Ok(report)
}
