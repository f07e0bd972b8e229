//! Whether a shard's queue goes on where the record of flushed batches ends.
//!
//! Everything before the head was acknowledged, and only a recorded batch is: so the record has a batch that ends right before the
//! head, and the head's link is made from that batch's. That is proven by the numbers and the links alone; a committer's clock is
//! asked only which of two histories is the later one.

use anyhow::Result;
use iam_ledger::{FlushEnd, Ledger};
use live_redis::QueueStatus;
use spend_queue::{Chain, Entry, Epoch};

use super::accounted::Accounted;
use super::finding::Report;
use super::queue::numbers;

pub(super) const CHECK: &str = "queue.continuity";

/// What a shard of the queue shows of its place in the history.
struct Seen<'a> {
    /// Number of the last entry that was taken off.
    taken: u64,
    /// Number that the next entry gets.
    next: u64,
    /// The entry behind `taken`, if it can be read.
    entry: Option<&'a Entry>,
    /// Link of `taken`, where the list is empty and the state still has it.
    chain: Option<Chain>,
}

/// `before`: the end of the record before the queue was looked at. What is committed meanwhile only lets the queue be further.
pub(super) async fn compare(
    ledger: &Ledger,
    epoch: &Epoch,
    before: Option<FlushEnd>,
    (status, accounted): (&QueueStatus, &Accounted),
    report: &mut Report,
) -> Result<()> {
    let shard = Some(status.shard.to_string());
    let (Some(head), Some(next)) = status.seqs else {
        if let (Some(end), None) = (before, status.seqs.1) {
            report.differ(
                CHECK,
                shard,
                format!("Redis knows no number, and {} was settled", end.seq),
                "Redis lost its data; what was queued and not settled by then is lost within its persistence class",
            );
        }
        return Ok(());
    };
    let entry = status.head.entries.first();
    let first = entry.and_then(|entry| entry.link).map_or(head, |link| link.seq);
    let seen = Seen {
        taken: first.saturating_sub(1),
        next,
        entry,
        chain: status.chain.filter(|_| entry.is_none() && head == next),
    };
    let ends = ledger.flushes_ending_at(epoch, status.shard, seen.taken).await?;
    let after = ledger.last_flush(epoch, status.shard).await?;
    let covered = |first, last| accounted.covers(first, last);
    if let Some((what, means)) = broken(before, after, &ends, &seen, covered) {
        report.differ(CHECK, shard, what, means);
    }
    Ok(())
}

/// What is wrong, if anything. `ends`: the batches that end with [`Seen::taken`]; `covered`: whether these numbers are recorded
/// as lost or were moved aside, and so named already.
fn broken(
    before: Option<FlushEnd>,
    after: Option<FlushEnd>,
    ends: &[FlushEnd],
    seen: &Seen<'_>,
    covered: impl Fn(u64, u64) -> bool,
) -> Option<(String, &'static str)> {
    let latest = ends.iter().map(|end| end.committed_at).max();
    if let Some(end) = before.filter(|end| end.seq >= seen.next)
        && latest.is_none_or(|latest| latest < end.committed_at)
    {
        return Some((
            format!("Redis gives out number {} next, and {} was settled", seen.next, end.seq),
            "Redis was rewound (a fail-over, a restore); what it lost and the ledger has not is lost within its persistence class",
        ));
    }
    let settled = after.map_or(0, |end| end.seq);
    if settled < seen.taken {
        let (first, last) = (settled + 1, seen.taken);
        return (!covered(first, last)).then(|| {
            (
                format!("{} left the queue and are not in the flush log", numbers(first, last)),
                "entries were taken off by another hand, or what was moved aside was deleted",
            )
        });
    }
    let follows = |chain: Chain| match (seen.entry, seen.chain) {
        (Some(entry), _) => entry.link.is_none() || entry.continues(seen.taken, chain),
        (None, Some(last)) => last == chain,
        (None, None) => true,
    };
    let sound = match ends {
        [] => seen.taken > 0 || follows(Chain::GENESIS),
        ends => ends.iter().any(|end| follows(end.chain)),
    };
    (!sound).then(|| {
        (
            format!("what is behind {} does not follow from what was settled under that number", seen.taken),
            "Redis was rewound and went on with other entries: two histories have the same numbers",
        )
    })
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, TimeDelta, Utc};

    use super::*;

    fn end(seq: u64, second: i64) -> FlushEnd {
        let committed_at = DateTime::<Utc>::UNIX_EPOCH + TimeDelta::seconds(second);
        FlushEnd { seq, chain: Chain::GENESIS, committed_at }
    }

    fn seen(taken: u64, next: u64) -> Seen<'static> {
        Seen { taken, next, entry: None, chain: None }
    }

    fn said(
        before: Option<FlushEnd>,
        after: Option<FlushEnd>,
        ends: &[FlushEnd],
        seen: &Seen<'_>,
    ) -> Option<String> {
        broken(before, after, ends, seen, |_, _| false).map(|(what, _)| what)
    }

    #[test]
    fn the_queue_may_be_behind_the_log_and_ahead_of_what_the_log_was_but_not_beyond_it() {
        assert_eq!(said(None, None, &[], &seen(0, 1)), None);
        assert_eq!(said(None, None, &[], &seen(0, 9)), None);
        assert_eq!(said(Some(end(5, 1)), Some(end(5, 1)), &[end(5, 1)], &seen(5, 6)), None);
        assert_eq!(said(Some(end(5, 1)), Some(end(5, 1)), &[end(2, 0)], &seen(2, 8)), None);
        assert_eq!(said(Some(end(5, 1)), Some(end(8, 2)), &[end(7, 2)], &seen(7, 9)), None);
        let lost = said(Some(end(5, 1)), Some(end(5, 1)), &[], &seen(7, 9)).unwrap();
        assert!(lost.contains("numbers 6 to 7 left the queue"), "{lost}");
        assert!(said(None, None, &[], &seen(2, 3)).unwrap().contains("numbers 1 to 2 left"));
        let rewound = said(Some(end(5, 2)), Some(end(5, 2)), &[end(3, 1)], &seen(3, 4)).unwrap();
        assert!(rewound.contains("number 4 next, and 5 was settled"), "{rewound}");
    }

    #[test]
    fn a_newer_history_with_smaller_numbers_is_no_rewind_again() {
        assert_eq!(said(Some(end(90, 1)), Some(end(90, 1)), &[end(3, 7)], &seen(3, 4)), None);
    }

    #[test]
    fn numbers_that_are_recorded_as_lost_are_named_there_alone() {
        let found =
            broken(Some(end(3, 1)), Some(end(3, 1)), &[], &seen(6, 7), |first, last| (first, last) == (4, 6));
        assert_eq!(found, None);
    }
}
