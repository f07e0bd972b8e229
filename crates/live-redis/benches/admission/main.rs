//! What an admission costs: server time, throughput and rebuilds, each against its baseline in the same run.
//!
//! `cargo xtask bench admission` runs it; `docs/performance.md` explains the figures.

#[path = "../common/mod.rs"]
mod common;
mod full_tree;
mod rebuild;
mod server_time;
mod throughput;

use anyhow::Result;

use common::program::{self, Effort};
use common::report::Report;
use common::server::Server;

fn main() -> Result<()> {
    program::run("admission", measure)
}

async fn measure(urls: [String; 4], effort: Effort, mut report: Report) -> Result<Report> {
    let [full, fast, loaded, rebuilt] = urls;
    let (full, fast) = (Server::connect(&full).await?, Server::connect(&fast).await?);
    report.add(server_time::measure(&full, &fast, effort).await?);
    report.add(throughput::measure(&Server::connect(&loaded).await?, effort).await?);
    report.add(rebuild::measure(&Server::connect(&rebuilt).await?, effort).await?);
    Ok(report)
}
