//! What a shard of the queue says of itself: its head, its index, its counters, what was moved aside, what was lost.

use std::collections::BTreeMap;

use live_redis::{Loss, QueueStatus};
use spend_queue::{Index, Stop, Usd};

use super::finding::Report;

pub(super) const CHECKS: [&str; 5] =
    ["queue.head", "queue.index", "queue.counters", "queue.quarantine", "queue.lost"];

pub(super) fn compare(status: &QueueStatus, report: &mut Report) {
    let shard = || Some(status.shard.to_string());
    report.pending_entries += status.backlog.entries;
    if let Some(Stop::Corrupt { position: 0, error, .. }) = &status.head.stop {
        report.differ(
            "queue.head",
            shard(),
            format!("the head is no entry: {error}"),
            "another hand wrote to the queue, or an entry was cut",
        );
    }
    if status.index() == Index::Doubtful {
        let doubt = status.doubt.as_deref().unwrap_or("length, head or tail is not as recorded");
        report.differ(
            "queue.index",
            shard(),
            format!("the index of pending spend is in doubt ({doubt}{})", missing(status)),
            "another hand wrote to the queue; strict reads go through the entries until it is mended",
        );
    }
    if status.damaged_counters > 0 {
        report.differ(
            "queue.counters",
            shard(),
            format!("{} counters of pending spend are not what Tallyweir writes", status.damaged_counters),
            "another hand wrote to them; `usage-flusher repair --yes` makes them anew",
        );
    }
    aside(status, report);
    lost(status, report);
}

/// What was moved aside: a difference until somebody dealt with it.
fn aside(status: &QueueStatus, report: &mut Report) {
    let mut open = 0_u64;
    for item in &status.quarantined {
        let Some(note) = &item.acknowledged else {
            open += 1;
            continue;
        };
        let what = item.seq.map_or_else(|| format!("item {}", item.place), |seq| numbers(seq, seq));
        let why = item.note.as_ref().map_or("?", |note| &*note.reason);
        report.remarks.push(format!(
            "shard {}: {what} was moved aside ({why}); dealt with: {}",
            status.shard, note.reason
        ));
    }
    if open > 0 {
        report.differ(
            "queue.quarantine",
            Some(status.shard.to_string()),
            format!("{open} entries were moved aside"),
            "they are neither settled nor pending. Put each back or enter its bill again, then `usage-flusher quarantine \
             --acknowledge`",
        );
    }
}

/// What left the queue without an acknowledgement: recorded by whichever script noticed it, or to be seen now.
fn lost(status: &QueueStatus, report: &mut Report) {
    let shard = status.shard.to_string();
    const MEANS: &str = "another hand took them off the queue; retries of their request ids are answered as duplicates. Enter the \
                         bills again under other ids, then `usage-flusher losses --acknowledge`";
    if status.lost_all()
        && let (Some(head), Some(next)) = status.seqs
    {
        let sums = status.by_kind().into_iter().map(|(kind, (_, sum))| (kind.to_owned(), sum)).collect();
        let what = format!(
            "the list is empty, and {} were not acknowledged ({})",
            numbers(head, next - 1),
            amounts(Some(&sums))
        );
        report.differ("queue.lost", Some(shard.clone()), what, MEANS);
    }
    for loss in &status.losses {
        let what = describe(loss);
        match &loss.acknowledged {
            None => report.differ("queue.lost", Some(shard.clone()), what, MEANS),
            Some(note) => {
                report.remarks.push(format!("shard {shard}: {what}; dealt with: {}", note.reason));
            }
        }
    }
}

/// A recorded loss in one line.
fn describe(loss: &Loss) -> String {
    let present = match loss.present {
        0 => String::new(),
        present => format!(", {present} of which were still there,"),
    };
    format!(
        "{}{present} left the queue without being acknowledged ({}), as `{}` found at {}",
        numbers(loss.first, loss.last),
        amounts(loss.pending.as_ref()),
        loss.found_by,
        loss.at.format("%F %TZ")
    )
}

/// What was charged to what is lost. Kinds overlap, so they are not added up.
fn amounts(pending: Option<&BTreeMap<String, Usd>>) -> String {
    match pending {
        None => "amount unknown".to_owned(),
        Some(pending) if pending.is_empty() => "nothing was charged to them".to_owned(),
        Some(pending) => {
            let each: Vec<_> = pending.iter().map(|(kind, sum)| format!("{kind} {sum} USD")).collect();
            each.join(", ")
        }
    }
}

pub(super) fn numbers(first: u64, last: u64) -> String {
    if first == last { format!("number {last}") } else { format!("numbers {first} to {last}") }
}

/// How many entries are there, where the recorded numbers say another number.
fn missing(status: &QueueStatus) -> String {
    match status.seqs {
        (Some(head), Some(next)) if status.missing > 0 => {
            let recorded = next.saturating_sub(head);
            let there = recorded.saturating_sub(status.missing);
            format!(": {there} entries are there, and {recorded} are recorded, from number {head}")
        }
        _ => String::new(),
    }
}
