//! `--deep`: whether every request id that Redis remembers belongs to something that waits, was moved aside, settled or refused.
//!
//! The order proves it while everything goes on: first the marks, then the queue, then the ledger. What left the queue before it
//! was read was committed before the ledger is read.

use std::collections::{BTreeSet, HashSet};

use anyhow::{Context, Result};
use chrono::Utc;
use iam_ledger::{DeadLetterPage, Ledger};
use live_redis::{LiveRedis, Mark};
use spend_queue::{Entry, Shard, SpendQueue};

use super::finding::Report;
use super::progress::Progress;

pub(super) const CHECK: &str = "queue.marks";

/// Marks that are held at once: some 200 MB. More are compared in several passes over the settled requests.
const HELD: usize = 4_000_000;
const PAGE: u32 = 10_000;
/// The most marks that are shown.
const SHOWN: usize = 5;

pub(super) async fn compare(redis: &LiveRedis, ledger: &Ledger, report: &mut Report) -> Result<()> {
    let mut progress = Progress::new();
    for shard in redis.shards().iter() {
        let unknown = unknown_in(redis, ledger, shard, &mut progress)
            .await
            .with_context(|| format!("looking for the remembered request ids of shard {shard}"))?;
        if unknown.count > 0 {
            let shown: Vec<_> = unknown.first.iter().map(ToString::to_string).collect();
            report.differ(
                CHECK,
                Some(shard.to_string()),
                format!(
                    "{} remembered request ids are nowhere: neither waiting nor moved aside, settled or refused ({})",
                    unknown.count,
                    shown.join(", ")
                ),
                "their bills left the queue by another hand, or the ledger lost them; retries of these ids are answered as \
                 duplicates",
            );
        }
    }
    report.looked_at(&[CHECK]);
    Ok(())
}

/// Marks without anything behind them: how many, and the first ones as bucket and digest.
#[derive(Default)]
struct Unknown {
    count: u64,
    first: BTreeSet<Mark>,
}

async fn unknown_in(
    redis: &LiveRedis,
    ledger: &Ledger,
    shard: Shard,
    progress: &mut Progress,
) -> Result<Unknown> {
    let (mut unknown, mut from) = (Unknown::default(), Some(0));
    while let Some(bucket) = from {
        let read = redis.marks(shard, bucket, HELD, Utc::now()).await?;
        progress.say(|| format!("shard {shard}: {} remembered request ids read", read.marks.len()));
        from = read.next;
        let mut open: HashSet<Mark> = read.marks.into_iter().collect();
        if open.is_empty() {
            continue;
        }
        for mark in redis.waiting_marks(shard).await? {
            open.remove(&mark);
        }
        take_settled(ledger, &mut open, |compared, left| {
            progress
                .say(|| format!("shard {shard}: {compared} settled requests compared, {left} to be found"));
        })
        .await?;
        if !open.is_empty() {
            take_letters(ledger, &mut open).await?;
        }
        unknown.count += u64::try_from(open.len()).unwrap_or(u64::MAX);
        unknown.first.extend(open);
        while unknown.first.len() > SHOWN {
            unknown.first.pop_last();
        }
    }
    Ok(unknown)
}

async fn take_settled(
    ledger: &Ledger,
    open: &mut HashSet<Mark>,
    mut compared: impl FnMut(u64, usize),
) -> Result<()> {
    let (mut ids, mut count) = (ledger.settled_ids(PAGE), 0);
    while !open.is_empty() {
        let page = ids.next_page().await?;
        if page.is_empty() {
            break;
        }
        count += u64::try_from(page.len()).unwrap_or(u64::MAX);
        for id in page {
            open.remove(&Mark::of(&id));
        }
        compared(count, open.len());
    }
    Ok(())
}

/// Letters of every state: one that is dealt with was settled, maybe under another id.
async fn take_letters(ledger: &Ledger, open: &mut HashSet<Mark>) -> Result<()> {
    let mut page = DeadLetterPage { after: 0, limit: PAGE, open_only: false };
    loop {
        let letters = ledger.dead_letters(page).await?;
        let Some(last) = letters.last() else { return Ok(()) };
        page.after = last.id;
        for letter in letters {
            let id = match letter.request_id {
                Some(id) => Some(id),
                // One that a text column cannot hold.
                None => Entry::decode(ledger.dead_letter(letter.id).await?.raw)
                    .ok()
                    .map(|entry| entry.event.request_id),
            };
            id.map(|id| open.remove(&Mark::of(&id)));
        }
    }
}
