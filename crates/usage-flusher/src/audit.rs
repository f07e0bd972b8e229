//! `audit`: Redis, the record of flushed batches and the ledger's books, compared: *exact*, or each difference by name.

use anyhow::{Context, Result};
use clap::Args;
use iam_ledger::{Ledger, LedgerAudit, LedgerOptions};
use live_redis::LiveRedis;
use serde::Serialize;
use spend_queue::{BatchLimit, Chain, Index, Peeked, Shard, SpendQueue, Stop};
use std::time::Duration;

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
    /// Print one JSON object: exact, pending_entries, differences (check, shard, what, means)
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    exact: bool,
    /// Entries that wait in Redis: no difference, but not in the ledger yet either.
    pending_entries: u64,
    differences: Vec<Difference>,
}

/// Something that does not agree.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Difference {
    /// A stable name, for scripts.
    check: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    shard: Option<String>,
    what: String,
    means: &'static str,
}

/// Answers whether everything agrees.
pub(crate) async fn audit(options: AuditOptions) -> Result<bool> {
    let database_url = options.database.url().required()?;
    let redis = options.redis.open().await?;
    let settings = LedgerOptions { statement_timeout: STATEMENT_TIMEOUT, ..LedgerOptions::default() };
    let ledger = Ledger::connect(&database_url, settings).await?;
    ledger.require_migrated().await?;
    let mut report = Report { exact: false, pending_entries: 0, differences: Vec::new() };
    for shard in redis.sources() {
        compare_shard(&redis, &ledger, shard, &mut report)
            .await
            .with_context(|| format!("auditing shard {shard}"))?;
    }
    report.differences.extend(of_ledger(&ledger.audit(SHOWN).await?));
    report.exact = report.differences.is_empty();
    redis.close();
    ledger.close().await;
    if options.json {
        println!("{}", serde_json::to_string(&report).context("writing the report")?);
    } else {
        print(&report);
    }
    Ok(report.exact)
}

/// What the queue holds against what the ledger recorded of it. The ledger is asked first: what is committed meanwhile only
/// lets the queue look further ahead than it is.
async fn compare_shard(redis: &LiveRedis, ledger: &Ledger, shard: Shard, report: &mut Report) -> Result<()> {
    let flushed = if shard.is_older() { None } else { ledger.last_flush(shard).await? };
    let status = redis.queue_status(shard).await?;
    report.pending_entries += status.backlog.entries;
    let mut differ = |check, what: String, means| {
        report.differences.push(Difference { check, shard: Some(shard.to_string()), what, means });
    };
    if let Some(Stop::Corrupt { position: 0, error, .. }) = &status.head.stop {
        differ(
            "queue.head",
            format!("the head is no entry: {error}"),
            "another hand wrote to the queue, or an entry was cut",
        );
    }
    if status.index() == Index::Doubtful {
        let doubt = status.doubt.as_deref().unwrap_or("length, head or tail is not as recorded");
        let there = missing(status.seqs, status.backlog.entries);
        differ(
            "queue.index",
            format!("the index of pending spend is in doubt ({doubt}{there})"),
            "another hand wrote to the queue; strict reads go through the entries until it is mended",
        );
    }
    if status.damaged_counters > 0 {
        differ(
            "queue.counters",
            format!("{} counters of pending spend are not what Tallyweir writes", status.damaged_counters),
            "another hand wrote to them; `usage-flusher repair --yes` makes them anew",
        );
    }
    if status.quarantined > 0 {
        differ(
            "queue.quarantine",
            format!("{} entries were moved aside", status.quarantined),
            "they are neither settled nor pending until somebody decides",
        );
    }
    if shard.is_older() {
        return Ok(());
    }
    // The head may have moved on since the flush log was read.
    let again = ledger.last_flush(shard).await?;
    if let (Some(head), Some(next)) = status.seqs {
        let head_entry = redis.peek_logs(shard, BatchLimit::MIN).await?;
        if let Some((what, means)) = continuity(flushed, again, head, next, &head_entry) {
            differ("queue.continuity", what, means);
        }
    } else if let (Some((seq, _)), None) = (flushed, status.seqs.1) {
        differ(
            "queue.continuity",
            format!("Redis knows no number, and {seq} was settled"),
            "Redis lost its data; what was queued and not settled by then is lost within its persistence class",
        );
    }
    Ok(())
}

/// How many entries are there, where the recorded numbers say another number.
fn missing(seqs: (Option<u64>, Option<u64>), entries: u64) -> String {
    match seqs {
        (Some(head), Some(next)) if next.checked_sub(head).is_some_and(|recorded| recorded != entries) => {
            format!(": {entries} entries are there, and {} are recorded, from number {head}", next - head)
        }
        _ => String::new(),
    }
}

/// Whether the queue goes on where the flush log ends. `before` and `after` are the log's end before and after the queue was
/// looked at.
fn continuity(
    before: Option<(u64, Chain)>,
    after: Option<(u64, Chain)>,
    head: u64,
    next: u64,
    peeked: &Peeked,
) -> Option<(String, &'static str)> {
    let settled_before = before.map_or(0, |(seq, _)| seq);
    let settled_after = after.map_or(0, |(seq, _)| seq);
    if next <= settled_before {
        return Some((
            format!("Redis gives out number {next} next, and {settled_before} was settled"),
            "Redis was rewound (a fail-over, a restore); what it lost and the ledger has not is lost within its persistence class",
        ));
    }
    if head > settled_after + 1 {
        return Some((
            format!(
                "numbers {} to {} left the queue and are not in the flush log",
                settled_after + 1,
                head - 1
            ),
            "entries were taken off by another hand, or moved aside: compare the quarantine",
        ));
    }
    let entry = peeked.entries.first()?;
    let follows = before.is_none_or(|(seq, chain)| {
        entry.link.is_none_or(|link| link.seq != seq + 1) || entry.continues(seq, chain)
    });
    (!follows).then(|| {
        (
            format!("the entry behind {settled_before} does not follow from the one that was settled under that number"),
            "Redis was rewound and went on with other entries: two histories have the same numbers",
        )
    })
}

fn of_ledger(audit: &LedgerAudit) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut differ = |check, shard, what, means| found.push(Difference { check, shard, what, means });
    let manual = "somebody changed the ledger by hand, or restored a part of it";
    for (count, what) in [
        (audit.requests_without_event, "settled requests have no event"),
        (audit.events_without_request, "events have no settled request"),
        (audit.requests_with_several_events, "requests have several events"),
    ] {
        if count > 0 {
            differ("ledger.requests", None, format!("{count} {what}"), manual);
        }
    }
    for day in &audit.days {
        let what = format!(
            "{}: {} events for {} USD are stored, the roll-up has {} for {} USD",
            day.day, day.events.0, day.cost.0, day.events.1, day.cost.1
        );
        differ("ledger.days", None, what, manual);
    }
    for scope in &audit.scopes {
        let what =
            format!("{}: events charge {} USD, {} USD is settled", scope.scope, scope.charged, scope.settled);
        differ("ledger.scopes", None, what, manual);
    }
    for broken in &audit.breaks {
        let shard = Some(broken.shard.to_string());
        let range = match (broken.first_seq, broken.last_seq) {
            (first, last) if first == last => format!("number {last}"),
            (first, last) => format!("numbers {first} to {last}"),
        };
        if broken.fork {
            let means = "Redis was rewound (a fail-over, a restart without its data) and gave out numbers again; every request id \
                         still counts once";
            differ(
                "flush_log.fork",
                shard,
                format!("two different entries have number {}", broken.last_seq),
                means,
            );
        } else {
            let means = "entries left the queue without being settled: another hand, or the quarantine";
            differ("flush_log.gap", shard, format!("no batch has {range}"), means);
        }
    }
    found
}

fn print(report: &Report) {
    let waiting = match report.pending_entries {
        0 => "nothing waits in Redis".to_owned(),
        entries => format!("{entries} entries wait in Redis"),
    };
    if report.exact {
        println!("exact: Redis, flush log and ledger agree; {waiting}");
        return;
    }
    let plural = if report.differences.len() == 1 { "" } else { "s" };
    println!("{} difference{plural}; {waiting}", report.differences.len());
    for Difference { check, shard, what, means } in &report.differences {
        let place = shard.as_ref().map_or_else(String::new, |shard| format!(" (shard {shard})"));
        println!("\n{check}{place}: {what}\n  means: {means}");
    }
}

#[cfg(test)]
mod tests {
    use spend_queue::ShardCount;

    use super::*;

    fn at(seq: u64) -> Option<(u64, Chain)> {
        Some((seq, Chain::GENESIS))
    }

    fn empty() -> Peeked {
        Peeked::read(ShardCount::ONE.shard_of(""), [], 0, Index::Proven)
    }

    #[test]
    fn the_queue_may_be_behind_the_log_and_ahead_of_what_the_log_was_but_not_beyond_it() {
        for (before, after, head, next) in [
            (None, None, 1, 1),
            (None, None, 1, 9),
            (at(5), at(5), 6, 6),
            (at(5), at(5), 3, 8),
            (at(5), at(8), 8, 9),
        ] {
            assert_eq!(continuity(before, after, head, next, &empty()), None, "{before:?} {head} {next}");
        }
        let said = |before, after, head, next| continuity(before, after, head, next, &empty()).unwrap().0;
        assert!(said(at(5), at(5), 4, 4).contains("number 4 next, and 5 was settled"));
        assert!(said(at(5), at(5), 8, 9).contains("numbers 6 to 7 left the queue"));
        assert!(said(None, None, 3, 3).contains("numbers 1 to 2 left"));
    }

    #[test]
    fn entries_that_are_missing_or_too_many_are_counted() {
        assert_eq!(missing((Some(361), Some(406)), 45), "");
        assert_eq!(missing((None, Some(406)), 45), "");
        assert_eq!(
            missing((Some(361), Some(406)), 44),
            ": 44 entries are there, and 45 are recorded, from number 361"
        );
    }

    #[test]
    fn each_difference_of_the_ledger_is_named() {
        let day = iam_ledger::DayDifference {
            day: chrono::NaiveDate::default(),
            events: ("2".into(), "1".into()),
            cost: ("0.3".parse().unwrap(), "0.1".parse().unwrap()),
        };
        let audit = LedgerAudit { requests_without_event: 3, days: vec![day], ..LedgerAudit::default() };
        let found = of_ledger(&audit);
        assert_eq!(found.iter().map(|one| one.check).collect::<Vec<_>>(), ["ledger.requests", "ledger.days"]);
        assert!(found[1].what.contains("2 events for 0.3 USD are stored, the roll-up has 1 for 0.1 USD"));
        assert_eq!(of_ledger(&LedgerAudit::default()), []);
    }
}
