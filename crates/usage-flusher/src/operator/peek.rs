//! `peek`: the head of a shard, and what stops it.

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;
use spend_queue::{BatchLimit, Index};

use super::ShardName;
use super::shown::{ShownEntry, ShownStop, stop_line, table};
use service_frame::connection::RedisConnection;

#[derive(Debug, Args)]
pub(crate) struct PeekOptions {
    #[command(flatten)]
    redis: RedisConnection,
    /// Which shard: its number from 0, or `older`
    #[arg(long, value_name = "SHARD", default_value = "0")]
    shard: ShardName,
    /// How many entries to show at most (1 to 10000)
    #[arg(long, value_name = "N", default_value = "10")]
    limit: BatchLimit,
    /// Print one JSON object: shard, depth, index, entries, stop
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    shard: String,
    depth: u64,
    index: &'static str,
    entries: Vec<ShownEntry<'a>>,
    /// Why the entries end where they end; absent when the limit or the end of the queue did it.
    #[serde(skip_serializing_if = "Option::is_none")]
    stop: Option<ShownStop>,
}

pub(crate) async fn peek(options: PeekOptions) -> Result<()> {
    let redis = options.redis.open().await?;
    let shard = options.shard.of(&redis)?;
    let peeked = redis.peek_logs(shard, options.limit).await?;
    redis.close();
    let report = Report {
        shard: shard.to_string(),
        depth: peeked.depth,
        index: if peeked.index == Index::Proven { "proven" } else { "doubtful" },
        entries: peeked.entries.iter().enumerate().map(|(at, entry)| ShownEntry::new(at, entry)).collect(),
        stop: peeked.stop.as_ref().map(ShownStop::new),
    };
    if options.json {
        println!("{}", serde_json::to_string(&report).context("writing the report")?);
        return Ok(());
    }
    println!("shard {}: {} entries, index {}", report.shard, report.depth, report.index);
    if !report.entries.is_empty() {
        let mut entries = table(&ShownEntry::HEADER, &[0, 1, 5]);
        for entry in &report.entries {
            entries.add_row(entry.row());
        }
        println!("{entries}");
    }
    if let Some(stop) = &peeked.stop {
        println!("{}", stop_line(stop));
    }
    Ok(())
}
