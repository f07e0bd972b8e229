//! `quarantine`: takes what cannot be settled off the head of a shard, keeps it, and notes what became of it.

use anyhow::{Context, Result, bail};
use chrono::Utc;
use clap::{ArgGroup, Args};
use live_redis::{LiveRedis, OperatorNote, Quarantined};
use serde::Serialize;
use service_frame::connection::RedisConnection;
use service_frame::values::whole;
use spend_queue::{BatchLimit, Peeked, Reindexed, Shard, SpendQueue};

use super::ShardName;
use super::shown::{corrupt_head, excerpt, sha1, table};
use crate::values::{reason, sha1 as sha1_digits};

/// The most items that one listing reads.
const LISTED: u32 = 10_000;

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("what").args(["head", "list", "restore", "acknowledge"])))]
#[command(group(ArgGroup::new("noted").args(["head", "acknowledge"])))]
pub(crate) struct QuarantineOptions {
    #[command(flatten)]
    redis: RedisConnection,
    /// Which shard: its number from 0
    #[arg(long, value_name = "SHARD", default_value = "0")]
    shard: ShardName,
    /// Move the head aside if it is still the one with this SHA-1, as shown without this flag
    #[arg(long, value_name = "SHA1", requires = "reason", value_parser = sha1_digits)]
    head: Option<String>,
    /// Why, or what was done about it, for whoever finds it later: 1 to 128 bytes
    #[arg(long, value_name = "TEXT", requires = "noted", value_parser = reason)]
    reason: Option<String>,
    /// List what was moved aside, oldest first
    #[arg(long)]
    list: bool,
    /// Put the item with this place in the list back to the head of the shard
    #[arg(long, value_name = "PLACE", value_parser = whole::<u64>(0..=i64::MAX))]
    restore: Option<u64>,
    /// Mark the item with this place as dealt with: an audit does not call it a difference any more. It stays in the list
    #[arg(long, value_name = "PLACE", requires = "reason", value_parser = whole::<u64>(0..=i64::MAX))]
    acknowledge: Option<u64>,
    /// Really do it; without, it is shown what would be done
    #[arg(long)]
    yes: bool,
    /// Print one JSON object: shard, done, sha1, entries (or items: place, seq, at, reason, acknowledged, sha1, raw)
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Default, Serialize)]
struct Report {
    shard: String,
    /// Whether something was moved or marked.
    done: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    sha1: Option<String>,
    /// What is wrong with the head, if anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    /// Entries that the shard holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    entries: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    items: Option<Vec<Item>>,
}

#[derive(Debug, Serialize)]
struct Item {
    place: u64,
    seq: Option<u64>,
    at: Option<chrono::DateTime<Utc>>,
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    acknowledged: Option<String>,
    sha1: String,
    raw: String,
}

/// Answers whether everything that was asked for was done or shown.
pub(crate) async fn quarantine(options: QuarantineOptions) -> Result<bool> {
    let redis = options.redis.open().await?;
    let shard = options.shard.of(&redis)?;
    if shard.is_older() {
        bail!("the queue of an older deployment has no quarantine: its programs would not know of it");
    }
    let report = match (options.restore, options.acknowledge) {
        (Some(place), _) => restore(&redis, shard, place, &options).await?,
        (None, Some(place)) => acknowledge(&redis, shard, place, &options).await?,
        (None, None) if options.list => list(&redis, shard, options.json).await?,
        (None, None) => take_head(&redis, shard, &options).await?,
    };
    redis.close();
    if options.json {
        println!("{}", serde_json::to_string(&report).context("writing the report")?);
    }
    Ok(report.done || !options.yes)
}

async fn list(redis: &LiveRedis, shard: Shard, json: bool) -> Result<Report> {
    let items: Vec<_> = redis.quarantined(shard, LISTED).await?.into_iter().map(item).collect();
    if !json {
        let mut listed = table(&["place", "seq", "at", "reason", "dealt with", "sha1", "raw"], &[0, 1]);
        for Item { place, seq, at, reason, acknowledged, sha1, raw } in &items {
            let at = at.map_or_else(|| "?".to_owned(), |at| at.format("%F %T").to_string());
            let reason = reason.clone().unwrap_or_else(|| "?".to_owned());
            let seq = seq.map_or_else(|| "?".to_owned(), |seq| seq.to_string());
            let dealt_with = acknowledged.clone().unwrap_or_else(|| "no".to_owned());
            listed.add_row([
                place.to_string(),
                seq,
                at,
                reason,
                dealt_with,
                sha1.clone(),
                excerpt(raw.as_bytes()),
            ]);
        }
        println!("shard {shard}: {} items were moved aside", items.len());
        if !items.is_empty() {
            println!("{listed}");
        }
    }
    Ok(Report { shard: shard.to_string(), items: Some(items), ..Report::default() })
}

fn item(quarantined: Quarantined) -> Item {
    let Quarantined { place, seq, note, acknowledged, raw, .. } = quarantined;
    let (at, reason) = note.map(|note| (note.at, note.reason)).unzip();
    let acknowledged = acknowledged.map(|note| note.reason);
    Item {
        place,
        seq,
        at,
        reason,
        acknowledged,
        sha1: sha1(&raw),
        raw: String::from_utf8_lossy(&raw).into_owned(),
    }
}

async fn take_head(redis: &LiveRedis, shard: Shard, options: &QuarantineOptions) -> Result<Report> {
    let peeked = redis.peek_logs(shard, BatchLimit::MIN).await?;
    let Some((raw, problem)) = head(&peeked) else {
        if !options.json {
            println!("shard {shard} is empty");
        }
        return Ok(Report { shard: shard.to_string(), entries: Some(0), ..Report::default() });
    };
    let digest = sha1(raw);
    let report =
        Report { shard: shard.to_string(), sha1: Some(digest.clone()), problem, ..Report::default() };
    let (Some(wanted), Some(reason), true) = (&options.head, &options.reason, options.yes) else {
        if !options.json {
            println!("head of shard {shard} ({} entries):\n  {}", peeked.depth, excerpt(raw));
            match &report.problem {
                Some(problem) => println!("  it cannot be settled: {problem}"),
                None => {
                    println!("  it is a sound entry: moved aside, its charge is neither settled nor pending");
                }
            }
            println!("to move it aside, whence it can be put back:");
            println!("  usage-flusher quarantine --shard {shard} --head {digest} --reason '...' --yes");
        }
        return Ok(Report { entries: Some(peeked.depth), ..report });
    };
    if *wanted != digest {
        bail!("the head of shard {shard} is {digest} and not {wanted}; nothing was moved: look again");
    }
    let note = OperatorNote { reason: reason.clone(), at: Utc::now() };
    let Some(left) = redis.quarantine(shard, raw, &note).await? else {
        bail!("the head of shard {shard} changed in the meantime; nothing was moved: look again");
    };
    if !options.json {
        println!("moved aside; shard {shard} holds {left} entries");
        println!("{}", after(&redis.reindex(shard).await?));
    } else {
        redis.reindex(shard).await?;
    }
    Ok(Report { done: true, entries: Some(left), ..report })
}

/// The head's bytes, and what is wrong with it.
fn head(peeked: &Peeked) -> Option<(&[u8], Option<String>)> {
    match (peeked.entries.first(), corrupt_head(peeked.stop.as_ref())) {
        (Some(entry), _) => Some((entry.raw(), None)),
        (None, Some((raw, error))) => Some((raw, Some(error.to_string()))),
        (None, None) => None,
    }
}

async fn item_at(redis: &LiveRedis, shard: Shard, place: u64) -> Result<Quarantined> {
    let items = redis.quarantined(shard, LISTED).await?;
    let Some(found) = items.into_iter().find(|item| item.place == place) else {
        bail!("nothing was moved aside at place {place} of shard {shard}; --list shows what was");
    };
    Ok(found)
}

async fn acknowledge(
    redis: &LiveRedis,
    shard: Shard,
    place: u64,
    options: &QuarantineOptions,
) -> Result<Report> {
    let found = item_at(redis, shard, place).await?;
    let report = Report { shard: shard.to_string(), sha1: Some(sha1(&found.raw)), ..Report::default() };
    let (Some(reason), true) = (&options.reason, options.yes) else {
        if !options.json {
            println!("would be marked as dealt with:\n  {}", excerpt(&found.raw));
            println!("nothing was marked: --yes does it");
        }
        return Ok(report);
    };
    let note = OperatorNote { reason: reason.clone(), at: Utc::now() };
    if !redis.acknowledge_quarantined(shard, &found, &note).await? {
        bail!("place {place} of shard {shard} holds something else by now; nothing was marked: look again");
    }
    if !options.json {
        println!("marked as dealt with");
    }
    Ok(Report { done: true, ..report })
}

async fn restore(redis: &LiveRedis, shard: Shard, place: u64, options: &QuarantineOptions) -> Result<Report> {
    let found = item_at(redis, shard, place).await?;
    if let Some(note) = &found.acknowledged {
        bail!(
            "place {place} of shard {shard} was dealt with ({}): put back, its bill might be charged twice",
            note.reason
        );
    }
    let report = Report { shard: shard.to_string(), sha1: Some(sha1(&found.raw)), ..Report::default() };
    if !options.yes {
        if !options.json {
            println!("would go back to the head of shard {shard}:\n  {}", excerpt(&found.raw));
            println!("to do it: usage-flusher quarantine --shard {shard} --restore {place} --yes");
        }
        return Ok(report);
    }
    let Some(entries) = redis.restore(shard, &found).await? else {
        bail!("place {place} of shard {shard} holds something else by now; nothing was moved: look again");
    };
    let reindexed = redis.reindex(shard).await?;
    if !options.json {
        println!("put back; shard {shard} holds {entries} entries\n{}", after(&reindexed));
    }
    Ok(Report { done: true, entries: Some(entries), ..report })
}

/// What became of the index afterwards.
fn after(reindexed: &Reindexed) -> String {
    match reindexed {
        Reindexed::Proven => "nothing is pending there".to_owned(),
        Reindexed::Rebuilt { entries } => {
            format!("its index of pending spend was made anew from {entries} entries")
        }
        Reindexed::Blocked { position } => {
            format!(
                "its index stays in doubt: item {position} cannot be read or does not follow from the one before it"
            )
        }
        Reindexed::TooLong { depth, bound } => {
            format!(
                "its index stays in doubt until it is shorter: {depth} entries, {bound} can be gone through"
            )
        }
    }
}
