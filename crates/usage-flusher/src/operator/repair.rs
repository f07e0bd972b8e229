//! `repair`: makes the index of pending spend anew.

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;
use spend_queue::{BatchLimit, Index, Reindexed};

use super::{ShardName, shards};
use service_frame::connection::RedisConnection;

#[derive(Debug, Args)]
pub(crate) struct RepairOptions {
    #[command(flatten)]
    redis: RedisConnection,
    /// Only this shard: its number from 0 [default: all]
    #[arg(long, value_name = "SHARD")]
    shard: Option<ShardName>,
    /// Really do it; without, it is shown what is in doubt
    #[arg(long)]
    yes: bool,
    /// Print one JSON object: sound, shards (shard, outcome, entries, position)
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    /// Whether the index of every shard is proven now.
    sound: bool,
    shards: Vec<ShardReport>,
}

#[derive(Debug, Serialize)]
struct ShardReport {
    shard: String,
    /// `proven`, `doubtful` (without --yes), `rebuilt`, `blocked` or `too_long`.
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    entries: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<u64>,
    #[serde(skip)]
    words: String,
}

impl ShardReport {
    fn of(shard: String, reindexed: &Reindexed) -> Self {
        let (outcome, entries, position, words) = match *reindexed {
            Reindexed::Proven => ("proven", None, None, "proven, nothing to do".to_owned()),
            Reindexed::Rebuilt { entries } => {
                ("rebuilt", Some(entries), None, format!("made anew from {entries} entries"))
            }
            Reindexed::Blocked { position } => (
                "blocked",
                None,
                Some(position),
                format!(
                    "item {position} cannot be read or does not follow from the one before it; what stands before it \
                     must be flushed first, then `usage-flusher peek --shard {shard}` shows it"
                ),
            ),
            Reindexed::TooLong { depth, bound } => (
                "too_long",
                Some(depth),
                None,
                format!(
                    "{depth} entries, at most {bound} are gone through; flush some, or raise --scan-bound"
                ),
            ),
        };
        Self { shard, outcome, entries, position, words }
    }
}

/// Answers whether the index of every shard is proven.
pub(crate) async fn repair(options: RepairOptions) -> Result<bool> {
    let redis = options.redis.open().await?;
    let mut reports = Vec::new();
    for shard in shards(&redis, options.shard)? {
        let report = if options.yes {
            let reindexed =
                redis.repair_index(shard).await.with_context(|| format!("repairing shard {shard}"))?;
            ShardReport::of(shard.to_string(), &reindexed)
        } else {
            let peeked = redis.peek_logs(shard, BatchLimit::MIN).await?;
            let (outcome, words) = match peeked.index {
                Index::Proven => ("proven", "proven, nothing to do"),
                Index::Doubtful => ("doubtful", "in doubt; --yes makes it anew from the entries"),
            };
            let (shard, words) = (shard.to_string(), words.to_owned());
            ShardReport { shard, outcome, entries: Some(peeked.depth), position: None, words }
        };
        reports.push(report);
    }
    redis.close();
    let sound = reports.iter().all(|report| matches!(report.outcome, "proven" | "rebuilt"));
    let report = Report { sound, shards: reports };
    if options.json {
        println!("{}", serde_json::to_string(&report).context("writing the report")?);
    } else {
        for ShardReport { shard, words, .. } in &report.shards {
            println!("shard {shard}: {words}");
        }
    }
    Ok(report.sound)
}
