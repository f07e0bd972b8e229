//! `audit`: Redis, the record of flushed batches and the ledger's books, compared: *exact*, or each difference by name.
//!
//! *Exact* is said of what was looked at, which is listed; what was not is listed too.

mod accounted;
mod books;
mod continuity;
mod epochs;
mod finding;
mod marks;
mod outside;
mod progress;
mod queue;

use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use iam_ledger::{Ledger, LedgerOptions};
use live_redis::LiveRedis;
use spend_queue::{Epoch, Shard, SpendQueue};

use accounted::Accounted;
use finding::Report;
pub(crate) use finding::Verdict;
use service_frame::connection::DatabaseOptions;
use service_frame::connection::RedisConnection;

/// The most rows of one kind of difference that are shown.
const SHOWN: u32 = 20;
/// A reading of the whole ledger takes longer than what the flusher allows itself.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(600);

#[derive(Debug, Args)]
pub(crate) struct AuditOptions {
    #[command(flatten)]
    redis: RedisConnection,
    #[command(flatten)]
    database: DatabaseOptions,
    /// Also look for what each request id that Redis remembers belongs to. Reads all of them and all settled ones: minutes
    /// where there are many millions
    #[arg(long)]
    deep: bool,
    /// Print one JSON object: verdict, exact, prefix, shards, database, pending_entries, looked_at, not_looked_at, remarks,
    /// differences (check, shard, what, means)
    #[arg(long)]
    json: bool,
}

/// Compares, prints, and answers how it ended.
pub(crate) async fn audit(options: AuditOptions) -> Result<Verdict> {
    let database_url = options.database.url().required()?;
    let target = options.redis.target()?;
    let redis = options.redis.open().await?;
    let settings = LedgerOptions { statement_timeout: STATEMENT_TIMEOUT, ..LedgerOptions::default() };
    let ledger = Ledger::connect(&database_url, settings).await?;
    ledger.require_migrated().await?;
    let epoch = redis.epoch();
    let mut report = Report {
        verdict: Verdict::Exact,
        exact: false,
        prefix: epoch.prefix().to_owned(),
        shards: epoch.shards().get(),
        database: ledger.target().to_owned(),
        pending_entries: 0,
        looked_at: Vec::new(),
        not_looked_at: Vec::new(),
        remarks: Vec::new(),
        differences: Vec::new(),
    };
    let mut accounted = Vec::new();
    for shard in redis.sources() {
        let of_shard = compare_shard(&redis, &ledger, &epoch, shard, &mut report)
            .await
            .with_context(|| format!("auditing shard {shard}"))?;
        accounted.push((shard.index(), of_shard));
    }
    books::compare(&ledger.audit(&epoch, SHOWN).await?, &accounted, &mut report);
    report.looked_at(&books::CHECKS);
    outside::compare(&ledger, &mut report).await?;
    report.looked_at(&outside::CHECKS);
    if options.deep {
        marks::compare(&redis, &ledger, &mut report).await?;
    } else {
        report.not_looked_at.push("what remembered request ids belong to (--deep)".to_owned());
    }
    let nothing = epochs::compare(&ledger, &epoch, target, &mut report).await?;
    report.verdict = match (report.differences.is_empty(), &nothing) {
        (false, _) => Verdict::Differs,
        (true, Some(_)) => Verdict::NothingToCompare,
        (true, None) => Verdict::Exact,
    };
    report.remarks.extend(nothing);
    report.exact = report.verdict == Verdict::Exact;
    redis.close();
    ledger.close().await;
    if options.json {
        println!("{}", serde_json::to_string(&report).context("writing the report")?);
    } else {
        report.print();
    }
    Ok(report.verdict)
}

/// What the queue holds against what the ledger recorded of it. The ledger is asked first: what is committed meanwhile only
/// lets the queue look further ahead than it is. Answers which numbers are named here.
async fn compare_shard(
    redis: &LiveRedis,
    ledger: &Ledger,
    epoch: &Epoch,
    shard: Shard,
    report: &mut Report,
) -> Result<Accounted> {
    let flushed = if shard.is_older() { None } else { ledger.last_flush(epoch, shard).await? };
    let status = redis.queue_status(shard).await?;
    let accounted = Accounted::of(&status);
    queue::compare(&status, report);
    report.looked_at(&queue::CHECKS);
    if !shard.is_older() {
        continuity::compare(ledger, epoch, flushed, (&status, &accounted), report).await?;
        report.looked_at(&[continuity::CHECK]);
    }
    Ok(accounted)
}
