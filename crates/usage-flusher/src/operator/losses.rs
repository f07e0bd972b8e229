//! `losses`: what left the queue without being acknowledged, and that somebody dealt with it.

use anyhow::{Context, Result, bail};
use chrono::{DateTime, Utc};
use clap::Args;
use live_redis::{LiveRedis, Loss, OperatorNote};
use serde::Serialize;
use service_frame::connection::RedisConnection;
use service_frame::values::whole;
use spend_queue::{Shard, Usd};
use std::collections::BTreeMap;

use super::shown::table;
use super::{ShardName, shards};
use crate::values::reason;

/// The most losses that one listing reads of a shard.
const LISTED: u32 = 10_000;

#[derive(Debug, Args)]
pub(crate) struct LossesOptions {
    #[command(flatten)]
    redis: RedisConnection,
    /// Only this shard: its number from 0 [default: all]
    #[arg(long, value_name = "SHARD")]
    shard: Option<ShardName>,
    /// Mark the loss with this place as dealt with: an audit does not call it a difference any more. The record stays
    #[arg(long, value_name = "PLACE", requires_all = ["reason", "shard"], value_parser = whole::<u64>(0..=i64::MAX))]
    acknowledge: Option<u64>,
    /// What was done about it, for whoever finds it later: 1 to 128 bytes
    #[arg(long, value_name = "TEXT", requires = "acknowledge", value_parser = reason)]
    reason: Option<String>,
    /// Really do it; without, it is shown what would be done
    #[arg(long)]
    yes: bool,
    /// Print one JSON object: done, losses (shard, place, first, last, present, found_by, at, pending_usd, acknowledged)
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    /// Whether something was marked.
    done: bool,
    losses: Vec<LossReport<'a>>,
}

/// A loss in the output for programs.
#[derive(Debug, Serialize)]
pub(super) struct LossReport<'a> {
    shard: String,
    place: u64,
    first: u64,
    last: u64,
    present: u64,
    found_by: &'a str,
    at: DateTime<Utc>,
    /// By kind of scope; kinds overlap.
    pending_usd: Option<&'a BTreeMap<String, Usd>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    acknowledged: Option<&'a str>,
}

impl<'a> LossReport<'a> {
    pub(super) fn new(shard: Shard, loss: &'a Loss) -> Self {
        Self {
            shard: shard.to_string(),
            place: loss.place,
            first: loss.first,
            last: loss.last,
            present: loss.present,
            found_by: &loss.found_by,
            at: loss.at,
            pending_usd: loss.pending.as_ref(),
            acknowledged: loss.acknowledged.as_ref().map(|note| &*note.reason),
        }
    }
}

/// Answers whether everything that was asked for was done or shown.
pub(crate) async fn losses(options: LossesOptions) -> Result<bool> {
    let redis = options.redis.open().await?;
    let mut found = Vec::new();
    for shard in shards(&redis, options.shard)?.into_iter().filter(|shard| !shard.is_older()) {
        found.push((shard, redis.losses(shard, LISTED).await?));
    }
    let done = match (options.acknowledge, &options.reason) {
        (Some(place), Some(reason)) if options.yes => acknowledge(&redis, &mut found, place, reason).await?,
        _ => false,
    };
    redis.close();
    let losses: Vec<_> = found
        .iter()
        .flat_map(|(shard, losses)| losses.iter().map(|loss| LossReport::new(*shard, loss)))
        .filter(|loss| options.acknowledge.is_none_or(|place| place == loss.place))
        .collect();
    if let (Some(place), true) = (options.acknowledge, losses.is_empty()) {
        bail!("there is no loss at place {place}; without --acknowledge all are listed");
    }
    let report = Report { done, losses };
    if options.json {
        println!("{}", serde_json::to_string(&report).context("writing the report")?);
    } else {
        print(&report, options.acknowledge.is_some());
    }
    Ok(true)
}

async fn acknowledge(
    redis: &LiveRedis,
    found: &mut [(Shard, Vec<Loss>)],
    place: u64,
    reason: &str,
) -> Result<bool> {
    let note = OperatorNote { reason: reason.to_owned(), at: Utc::now() };
    for (shard, losses) in found {
        let Some(loss) = losses.iter_mut().find(|loss| loss.place == place) else { continue };
        if !redis.acknowledge_loss(*shard, loss, &note).await? {
            bail!(
                "place {place} of shard {shard} holds something else by now; nothing was marked: look again"
            );
        }
        loss.acknowledged = Some(note);
        return Ok(true);
    }
    Ok(false)
}

fn print(report: &Report<'_>, wanted: bool) {
    if report.losses.is_empty() {
        println!("nothing is recorded as lost");
        return;
    }
    let mut listed = table(
        &["shard", "place", "numbers", "there", "found by", "at", "pending USD", "dealt with"],
        &[0, 1, 3],
    );
    for loss in &report.losses {
        let amounts = loss.pending_usd.map_or_else(
            || "?".to_owned(),
            |sums| sums.iter().map(|(kind, sum)| format!("{kind} {sum}")).collect::<Vec<_>>().join(", "),
        );
        listed.add_row([
            loss.shard.clone(),
            loss.place.to_string(),
            format!("{}..{}", loss.first, loss.last),
            loss.present.to_string(),
            loss.found_by.to_owned(),
            loss.at.format("%F %T").to_string(),
            amounts,
            loss.acknowledged.unwrap_or("no").to_owned(),
        ]);
    }
    println!("{listed}");
    match (wanted, report.done) {
        (true, true) => println!("marked as dealt with"),
        (true, false) => println!("nothing was marked: --yes does it"),
        _ => {}
    }
}
