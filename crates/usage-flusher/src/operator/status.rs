//! `status`: what waits, since when, and whether the index of pending spend is proven.

use anyhow::{Context, Result};
use chrono::{DateTime, Utc};
use clap::Args;
use live_redis::QueueStatus;
use serde::Serialize;
use spend_queue::{Index, ScopeRef, Usd};

use super::losses::LossReport;
use super::shown::{age, bytes, corrupt_head, excerpt, table};
use super::{ShardName, shards};
use service_frame::connection::RedisConnection;
use service_frame::values::whole;

#[derive(Debug, Args)]
pub(crate) struct StatusOptions {
    #[command(flatten)]
    redis: RedisConnection,
    /// Only this shard: its number from 0, or `older` [default: all]
    #[arg(long, value_name = "SHARD")]
    shard: Option<ShardName>,
    /// How many of the scopes with the most pending spend to show (0 to 10000)
    #[arg(long, value_name = "N", default_value = "10", value_parser = whole::<usize>(0..=10_000))]
    top: usize,
    /// Print one JSON object: entries, consistent, shards
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    entries: u64,
    /// Whether the index of every shard is proven, every head can be read, and nothing is missing or lost.
    consistent: bool,
    shards: Vec<ShardReport<'a>>,
}

#[derive(Debug, Serialize)]
struct ShardReport<'a> {
    shard: String,
    entries: u64,
    bytes: u64,
    oldest: Option<DateTime<Utc>>,
    oldest_age_seconds: Option<f64>,
    head_seq: Option<u64>,
    next_seq: Option<u64>,
    index: &'static str,
    doubt: Option<&'a str>,
    corrupt_head: Option<String>,
    /// Entries that were moved aside and that nobody dealt with.
    quarantined: usize,
    /// Numbers that the state names and the list does not have.
    missing: u64,
    /// Recorded losses that nobody dealt with.
    losses: Vec<LossReport<'a>>,
    damaged_counters: u64,
    pending: Vec<KindReport<'a>>,
    top: Vec<ScopeReport<'a>>,
}

#[derive(Debug, Serialize)]
struct KindReport<'a> {
    kind: &'a str,
    scopes: u64,
    pending_usd: Usd,
}

#[derive(Debug, Serialize)]
struct ScopeReport<'a> {
    scope: &'a ScopeRef,
    pending_usd: Usd,
    paid_events: u64,
}

impl<'a> ShardReport<'a> {
    fn new(status: &'a QueueStatus, top: usize, now: DateTime<Utc>) -> Self {
        let kinds = status.by_kind().into_iter();
        Self {
            shard: status.shard.to_string(),
            entries: status.backlog.entries,
            bytes: status.bytes,
            oldest: status.backlog.oldest,
            oldest_age_seconds: status.backlog.oldest.map(|_| status.backlog.age(now).as_secs_f64()),
            head_seq: status.seqs.0,
            next_seq: status.seqs.1,
            index: if status.index() == Index::Proven { "proven" } else { "doubtful" },
            doubt: status.doubt.as_deref(),
            corrupt_head: corrupt_head(status.head.stop.as_ref()).map(|(_, error)| error.to_string()),
            quarantined: status.quarantined.iter().filter(|item| item.acknowledged.is_none()).count(),
            missing: status.missing,
            losses: status
                .losses
                .iter()
                .filter(|loss| loss.acknowledged.is_none())
                .map(|loss| LossReport::new(status.shard, loss))
                .collect(),
            damaged_counters: status.damaged_counters,
            pending: kinds
                .map(|(kind, (scopes, pending_usd))| KindReport { kind, scopes, pending_usd })
                .collect(),
            top: status
                .counters
                .iter()
                .take(top)
                .map(|(scope, charge)| ScopeReport {
                    scope,
                    pending_usd: charge.amount,
                    paid_events: charge.paid_events,
                })
                .collect(),
        }
    }

    fn is_consistent(&self) -> bool {
        self.index == "proven"
            && self.corrupt_head.is_none()
            && self.damaged_counters == 0
            && self.missing == 0
            && self.losses.is_empty()
    }
}

pub(crate) async fn status(options: StatusOptions) -> Result<()> {
    let redis = options.redis.open().await?;
    let mut found = Vec::new();
    for shard in shards(&redis, options.shard)? {
        found.push(redis.queue_status(shard).await.with_context(|| format!("looking at shard {shard}"))?);
    }
    redis.close();
    let now = Utc::now();
    let shards: Vec<_> = found.iter().map(|status| ShardReport::new(status, options.top, now)).collect();
    let report = Report {
        entries: shards.iter().map(|shard| shard.entries).sum(),
        consistent: shards.iter().all(ShardReport::is_consistent),
        shards,
    };
    if options.json {
        println!("{}", serde_json::to_string(&report).context("writing the report")?);
    } else {
        print_tables(&report, &found, now);
    }
    Ok(())
}

fn print_tables(report: &Report<'_>, found: &[QueueStatus], now: DateTime<Utc>) {
    let mut overview =
        table(&["shard", "entries", "size", "oldest", "seq", "index", "aside", "pending USD"], &[1, 2, 6]);
    for (shard, status) in report.shards.iter().zip(found) {
        let pending: Vec<_> =
            shard.pending.iter().map(|kind| format!("{} {}", kind.kind, kind.pending_usd)).collect();
        let seq = |seq: Option<u64>| seq.map_or_else(|| "?".to_owned(), |seq| seq.to_string());
        overview.add_row([
            shard.shard.clone(),
            shard.entries.to_string(),
            bytes(shard.bytes),
            shard.oldest.map_or_else(|| "-".to_owned(), |_| age(status.backlog.age(now))),
            if shard.next_seq.is_some() {
                format!("{}..{}", seq(shard.head_seq), seq(shard.next_seq))
            } else {
                "-".into()
            },
            shard.doubt.map_or_else(|| shard.index.to_owned(), |doubt| format!("{} ({doubt})", shard.index)),
            shard.quarantined.to_string(),
            if pending.is_empty() { "0".to_owned() } else { pending.join(", ") },
        ]);
    }
    println!("{overview}");
    let mut top = table(&["shard", "scope", "pending USD", "paid events"], &[2, 3]);
    for shard in &report.shards {
        for scope in &shard.top {
            top.add_row([
                shard.shard.clone(),
                scope.scope.to_string(),
                scope.pending_usd.to_string(),
                scope.paid_events.to_string(),
            ]);
        }
    }
    if top.row_count() > 0 {
        println!("\n{top}");
    }
    for (shard, status) in report.shards.iter().zip(found) {
        let name = &shard.shard;
        if let Some((raw, error)) = corrupt_head(status.head.stop.as_ref()) {
            println!("\nshard {name} stands still: its head is no entry ({error})\n  {}", excerpt(raw));
            println!("  look at it:    usage-flusher peek --shard {name}");
            println!("  take it off:   usage-flusher quarantine --shard {name}");
        } else if shard.index == "doubtful" {
            println!(
                "\nshard {name}: the index of pending spend is in doubt, strict reads go through the entries"
            );
            println!("  a running flusher mends it; or: usage-flusher repair --shard {name} --yes");
        }
        if status.lost_all()
            && let (Some(head), Some(next)) = status.seqs
        {
            let pending: Vec<_> =
                shard.pending.iter().map(|kind| format!("{} {}", kind.kind, kind.pending_usd)).collect();
            println!(
                "\nshard {name} is empty, and numbers {head} to {} were not acknowledged: {} USD are lost",
                next - 1,
                pending.join(", ")
            );
            println!("  another hand took them off; see docs/operations/runbook.md, EntriesLost");
        }
        if !shard.losses.is_empty() {
            println!("\nshard {name}: {} losses are recorded and not dealt with", shard.losses.len());
            println!("  look at them:  usage-flusher losses --shard {name}");
        }
        if shard.damaged_counters > 0 {
            println!("\nshard {name}: {} counters are not what this release writes", shard.damaged_counters);
            println!("  make them anew: usage-flusher repair --shard {name} --yes");
        }
    }
}
