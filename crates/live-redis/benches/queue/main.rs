//! What the spend queue costs: enqueues, strict reads, the memory of request ids, acknowledgements, and what a doubt
//! costs, each against its baseline in the same run.
//!
//! `cargo xtask bench queue` runs it; `docs/performance.md` explains the figures.

#[path = "../common/mod.rs"]
mod common;
mod doubt;
mod drain;
mod enqueue;
mod fill;
mod memory;
mod raw_script;
mod reads;
mod yesterday;

use anyhow::Result;
use bench_frame::traffic;

use common::program::{self, Effort};
use common::report::Report;
use common::server::Server;

fn main() -> Result<()> {
    program::run("queue", measure)
}

async fn measure(urls: [String; 6], effort: Effort, mut report: Report) -> Result<Report> {
    let [loaded, few, many, drained, doubtful, remembering] = urls;
    report.add(enqueue::measure(&Server::connect(&loaded).await?, effort).await?);
    report.add(reads::measure(&Server::connect(&few).await?, &Server::connect(&many).await?, effort).await?);
    report.add(yesterday::measure(&Server::connect(&few).await?, effort).await?);
    report.add(drain::measure(&Server::connect(&drained).await?, effort).await?);
    report.add(doubt::measure(&Server::connect(&doubtful).await?, effort).await?);
    report.add(memory::measure(&Server::connect(&remembering).await?).await?);
    Ok(report)
}
