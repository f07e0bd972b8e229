//! What a replay tells people and programs.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::time::Duration;

use serde::Serialize;
use spend_queue::Usd;

use crate::journal::{DayModel, Spend, SumOverflow};
use crate::reconcile::Reconciliation;
use crate::replay::Played;

/// The most differences that are listed; more follow from the same cause.
const LISTED_MISMATCHES: usize = 20;

/// The result of a replay as one JSON object. Amounts are exact decimal text in USD.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Requests that asked for admission.
    pub requests: u64,
    /// Requests that were admitted.
    pub admitted: u64,
    /// Requests that were refused, by reason (`<kind> rpm_limit`, `<kind> tpm_limit`).
    pub rejected: BTreeMap<String, u64>,
    /// Events that the queue accepted.
    pub enqueued: u64,
    /// Events that were sent once more on purpose.
    pub duplicates_sent: u64,
    /// Events of the run in the ledger.
    pub committed: u64,
    /// What the ledger says they cost.
    pub ledger_usd: Usd,
    /// What they must cost.
    pub expected_usd: Usd,
    /// What is still pending in Redis.
    pub hot_left_usd: Usd,
    /// Entries still in the queue.
    pub queue_left: u64,
    /// Whether everything agrees.
    pub reconciled: bool,
    /// How long it took, to the millisecond.
    pub seconds: f64,
}

/// The whole result of a replay. `Display` writes it for people.
#[derive(Clone, Debug)]
pub struct Findings {
    /// What was done.
    pub played: Played,
    /// What the stores hold.
    pub reconciliation: Reconciliation,
    /// What was missing when the time for draining was over.
    pub not_drained: Option<String>,
    /// From the first request to the last comparison.
    pub elapsed: Duration,
    /// All events of the run.
    pub total: Spend,
}

impl Findings {
    /// Puts the results together.
    ///
    /// # Errors
    ///
    /// [`SumOverflow`].
    pub fn new(
        played: Played,
        reconciliation: Reconciliation,
        not_drained: Option<String>,
        elapsed: Duration,
    ) -> Result<Self, SumOverflow> {
        let total = played.journal.total()?;
        Ok(Self { played, reconciliation, not_drained, elapsed, total })
    }

    /// Whether every book agrees, and the queue kept its contract.
    #[must_use]
    pub fn reconciled(&self) -> bool {
        self.reconciliation.mismatches.is_empty()
            && self.not_drained.is_none()
            && self.played.faults.is_empty()
    }

    /// The result for programs.
    #[must_use]
    pub fn report(&self) -> Report {
        Report {
            requests: self.played.requests,
            admitted: self.played.admitted,
            rejected: self.played.rejected.clone(),
            enqueued: self.total.events,
            duplicates_sent: self.played.duplicates_sent,
            committed: self.reconciliation.committed,
            ledger_usd: self.reconciliation.ledger,
            expected_usd: self.total.cost,
            hot_left_usd: self.reconciliation.hot_left,
            queue_left: self.reconciliation.queue_left,
            reconciled: self.reconciled(),
            seconds: (self.elapsed.as_secs_f64() * 1000.0).round() / 1000.0,
        }
    }

    /// What is wrong, a line each; none when all is well.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.not_drained.iter().cloned().collect();
        lines.extend(self.played.faults.iter().map(|(fault, times)| format!("{fault}: {times} times")));
        let mismatches = &self.reconciliation.mismatches;
        lines.extend(mismatches.iter().take(LISTED_MISMATCHES).map(ToString::to_string));
        if let Some(more @ 1..) = mismatches.len().checked_sub(LISTED_MISMATCHES) {
            lines.push(format!("and {more} more differences"));
        }
        lines
    }

    /// Spend summed by a part of the key. Parts of a sum that fits do fit.
    fn by(&self, part: fn(&DayModel) -> &str) -> BTreeMap<&str, Spend> {
        let mut sums: BTreeMap<&str, Spend> = BTreeMap::new();
        for (key, spend) in &self.played.journal.days {
            let _ = sums.entry(part(key)).or_default().add(*spend);
        }
        sums
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self.report();
        let rejected: u64 = report.rejected.values().sum();
        f.write_str(&self.played.chart.draw())?;
        writeln!(f)?;
        let rows = [
            ("requests", report.requests.to_string()),
            ("admitted", format!("{} ({})", report.admitted, percent(report.admitted, report.requests))),
            ("refused", format!("{rejected} ({})", percent(rejected, report.requests))),
            ("enqueued", report.enqueued.to_string()),
            ("unpriced", self.total.unpriced.to_string()),
            ("duplicates sent", report.duplicates_sent.to_string()),
            ("committed", report.committed.to_string()),
            ("expected USD", report.expected_usd.to_string()),
            ("ledger USD", report.ledger_usd.to_string()),
            ("pending USD", report.hot_left_usd.to_string()),
            ("left in queue", report.queue_left.to_string()),
            ("seconds", format!("{:.3}", report.seconds)),
        ];
        for (name, value) in rows {
            writeln!(f, "{name:<16} {value}")?;
        }
        let mut refusals: Vec<(&String, &u64)> = report.rejected.iter().collect();
        refusals.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        table(
            f,
            "refused by",
            refusals.into_iter().map(|(reason, count)| (reason.as_str(), count.to_string())),
        )?;
        let spend = |spend: &Spend| match spend.unpriced {
            0 => format!("{} USD, {} events", spend.cost, spend.events),
            unpriced => format!("{} USD, {} events, {unpriced} of them unpriced", spend.cost, spend.events),
        };
        for (title, sums) in [
            ("spend by organization", self.by(|key| &key.organization)),
            ("spend by model", self.by(|key| &key.model)),
        ] {
            table(f, title, sums.iter().map(|(name, sum)| (*name, spend(sum))))?;
        }
        writeln!(f)?;
        match self.reconciled() {
            true => {
                writeln!(f, "reconciled: events, days, scopes and fingerprint agree to the last picodollar")
            }
            false => {
                writeln!(f, "NOT reconciled:")?;
                self.complaints().iter().try_for_each(|line| writeln!(f, "  {line}"))
            }
        }
    }
}

fn table<'a>(
    f: &mut fmt::Formatter<'_>,
    title: &str,
    rows: impl Iterator<Item = (&'a str, String)>,
) -> fmt::Result {
    let rows: Vec<(&str, String)> = rows.collect();
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut text = format!("\n{title}\n");
    for (name, value) in &rows {
        writeln!(text, "  {name:<width$}  {value}")?;
    }
    if rows.is_empty() { Ok(()) } else { f.write_str(&text) }
}

/// With one decimal place; "0.0 %" of nothing.
fn percent(part: u64, whole: u64) -> String {
    let permille = (u128::from(part) * 1000 + u128::from(whole / 2)) / u128::from(whole.max(1));
    format!("{}.{} %", permille / 10, permille % 10)
}

#[cfg(test)]
mod tests {
    use chrono::NaiveDate;
    use spend_queue::{ScopeRef, SpendEvent};

    use super::*;
    use crate::reconcile::Mismatch;

    fn findings() -> Findings {
        let mut played = Played { requests: 4, admitted: 3, duplicates_sent: 1, ..Played::default() };
        played.rejected.insert("team tpm_limit".to_owned(), 1);
        for n in 0..3 {
            let scopes = vec![ScopeRef::new("organization", "o").unwrap()];
            let mut event = SpendEvent::new(format!("r{n}"), "m", scopes);
            event.cost = Some("0.0000027".parse().unwrap());
            played.journal.note("o", NaiveDate::from_ymd_opt(2025, 6, n + 1).unwrap(), &event).unwrap();
        }
        let reconciliation = Reconciliation {
            committed: 3,
            ledger: "0.0000081".parse().unwrap(),
            ..Reconciliation::default()
        };
        Findings::new(played, reconciliation, None, Duration::from_micros(1_234_567)).unwrap()
    }

    #[test]
    fn the_report_is_one_object_with_exact_amounts() {
        assert_eq!(
            serde_json::to_string(&findings().report()).unwrap(),
            concat!(
                r#"{"requests":4,"admitted":3,"rejected":{"team tpm_limit":1},"enqueued":3,"duplicates_sent":1,"#,
                r#""committed":3,"ledger_usd":"0.0000081","expected_usd":"0.0000081","hot_left_usd":"0","#,
                r#""queue_left":0,"reconciled":true,"seconds":1.235}"#
            )
        );
    }

    #[test]
    fn people_see_refusals_and_spend_by_organization_and_model() {
        let text = findings().to_string();
        for wanted in [
            "admitted         3 (75.0 %)",
            "refused          1 (25.0 %)",
            "\nrefused by\n  team tpm_limit  1\n",
            "\nspend by organization\n  o  0.0000081 USD, 3 events\n",
            "\nspend by model\n  m  0.0000081 USD, 3 events\n",
            "\nreconciled: ",
        ] {
            assert!(text.contains(wanted), "{wanted:?} is not in\n{text}");
        }
    }

    #[test]
    fn any_fault_or_difference_means_that_the_run_is_not_reconciled() {
        let mut drained = findings();
        drained.not_drained = Some("the ledger has 2 of 3".to_owned());
        let mut faulty = findings();
        faulty.played.faults.insert("a duplicate was accepted", 2);
        let mut different = findings();
        let mismatch = Mismatch { what: "x".to_owned(), expected: "1".to_owned(), found: "2".to_owned() };
        different.reconciliation.mismatches = vec![mismatch; 25];
        for (findings, line) in [
            (drained, "  the ledger has 2 of 3\n"),
            (faulty, "  a duplicate was accepted: 2 times\n"),
            (different, "  and 5 more differences\n"),
        ] {
            assert!(!findings.report().reconciled);
            assert!(findings.to_string().contains(line), "{findings}");
        }
    }

    #[test]
    fn percentages_are_rounded_and_defined_for_nothing() {
        assert_eq!((percent(1, 3), percent(2, 3)), ("33.3 %".to_owned(), "66.7 %".to_owned()));
        assert_eq!((percent(0, 0), percent(5, 5)), ("0.0 %".to_owned(), "100.0 %".to_owned()));
    }
}
