//! What the ledger's own books say, compared with each other.

use iam_ledger::{ArchivedMonth, LedgerAudit};

use super::accounted::Accounted;
use super::finding::Report;
use super::queue::numbers;

pub(super) const CHECKS: [&str; 4] = ["ledger.requests", "ledger.days", "ledger.scopes", "flush_log"];

const MANUAL: &str = "somebody changed the ledger by hand, or restored a part of it";

/// `accounted`: that of each shard by its number. What it covers is not named again as a gap of the flush log.
pub(super) fn compare(audit: &LedgerAudit, accounted: &[(u16, Accounted)], report: &mut Report) {
    for (count, what) in [
        (audit.requests_without_event, "settled requests have no event"),
        (audit.archived_without_request, "archived events have no settled request, or were put back"),
        (audit.events_without_request, "events have no settled request"),
        (audit.requests_with_several_events, "requests have several events"),
    ] {
        if count > 0 {
            report.differ("ledger.requests", None, format!("{count} {what}"), MANUAL);
        }
    }
    for day in &audit.days {
        let what = format!(
            "{}: {} events for {} USD are stored, the roll-up has {} for {} USD",
            day.day, day.events.0, day.cost.0, day.events.1, day.cost.1
        );
        report.differ("ledger.days", None, what, MANUAL);
    }
    for scope in &audit.scopes {
        let what =
            format!("{}: events charge {} USD, {} USD is settled", scope.scope, scope.charged, scope.settled);
        report.differ("ledger.scopes", None, what, MANUAL);
    }
    for month in &audit.archived {
        archived(month, report);
    }
    breaks(audit, accounted, report);
}

fn archived(month: &ArchivedMonth, report: &mut Report) {
    let name = month.month.format("%Y-%m");
    if !month.agrees() {
        let what = format!(
            "{name}: {} events for {} USD are archived, {} for {} USD stored, the roll-up has {} for {} USD",
            month.events, month.cost, month.stored.0, month.stored.1, month.rolled_up.0, month.rolled_up.1
        );
        report.differ("ledger.days", None, what, MANUAL);
    }
    report.not_looked_at.push(format!("month archived: {name} ({} events, not read)", month.events));
}

fn breaks(audit: &LedgerAudit, accounted: &[(u16, Accounted)], report: &mut Report) {
    for broken in &audit.breaks {
        let shard = Some(broken.shard.to_string());
        let (first, last) = (broken.first_seq.unsigned_abs(), broken.last_seq.unsigned_abs());
        if broken.fork {
            report.differ(
                "flush_log.fork",
                shard,
                format!("two different entries have number {last}"),
                "Redis was rewound (a fail-over, a restart without its data) and gave out numbers again; every request id still \
                 counts once",
            );
        } else if !is_accounted_for(accounted, broken.shard, first, last) {
            report.differ(
                "flush_log.gap",
                shard,
                format!("no batch has {}", numbers(first, last)),
                "entries left the queue without being settled: another hand took them, or deleted what was moved aside",
            );
        }
    }
}

fn is_accounted_for(accounted: &[(u16, Accounted)], shard: i32, first: u64, last: u64) -> bool {
    accounted.iter().any(|(index, of_shard)| i32::from(*index) == shard && of_shard.covers(first, last))
}

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict;
    use super::*;

    fn report() -> Report {
        Report {
            verdict: Verdict::Exact,
            exact: true,
            prefix: String::new(),
            shards: 1,
            database: String::new(),
            pending_entries: 0,
            looked_at: Vec::new(),
            not_looked_at: Vec::new(),
            remarks: Vec::new(),
            differences: Vec::new(),
        }
    }

    #[test]
    fn each_difference_of_the_ledger_is_named() {
        let day = iam_ledger::DayDifference {
            day: chrono::NaiveDate::default(),
            events: ("2".into(), "1".into()),
            cost: ("0.3".parse().unwrap(), "0.1".parse().unwrap()),
        };
        let audit = LedgerAudit { requests_without_event: 3, days: vec![day], ..LedgerAudit::default() };
        let mut found = report();
        compare(&audit, &[], &mut found);
        let checks: Vec<_> = found.differences.iter().map(|one| one.check).collect();
        assert_eq!(checks, ["ledger.requests", "ledger.days"]);
        assert!(
            found.differences[1].what.contains("2 events for 0.3 USD are stored, the roll-up has 1 for 0.1")
        );
        let mut nothing = report();
        compare(&LedgerAudit::default(), &[], &mut nothing);
        assert_eq!(nothing.differences, []);
    }
}
