//! Money that is neither pending nor settled: refused entries, and bills on gateways' disks.

use std::time::Duration;

use anyhow::Result;
use iam_ledger::{Ledger, OpenLetters, SpoolAnnouncement};

use super::SHOWN;
use super::finding::Report;

pub(super) const CHECKS: [&str; 2] = ["ledger.dead_letters", "spools"];

/// A gateway with bills in its spool says so at least twice as often.
const STALE: Duration = Duration::from_secs(120);

pub(super) async fn compare(ledger: &Ledger, report: &mut Report) -> Result<()> {
    let (refused, conflicts) = ledger.open_letters().await?;
    if refused.letters > 0 {
        report.differ(
            "ledger.dead_letters",
            None,
            format!("{} refused entries wait for somebody: {}", refused.letters, amount(&refused)),
            "they are neither pending nor settled; `usage-flusher dead-letters list`, mend the cause, then `dead-letters replay`",
        );
    }
    if conflicts.letters > 0 {
        // The ledger is right by its rule: the first payload under an id counts. Whether a call is missing, nobody can tell here.
        report.remarks.push(format!(
            "{} entries came under request ids that were settled with another payload, which counts: {} (dead letters, \
             conflict)",
            conflicts.letters,
            amount(&conflicts)
        ));
    }
    for (spool, age) in ledger.announced_spools(SHOWN).await? {
        let (what, means) = held(&spool, age);
        report.differ("spools", None, what, means);
    }
    report.not_looked_at.push(
        "spools of gateways that cannot reach this database: they cannot say what they hold".to_owned(),
    );
    Ok(())
}

fn amount(letters: &OpenLetters) -> String {
    match letters.unreadable {
        0 => format!("{} USD", letters.cost),
        unreadable => format!("{} USD, and {unreadable} whose amount cannot be read", letters.cost),
    }
}

fn held(spool: &SpoolAnnouncement, age: Duration) -> (String, &'static str) {
    let SpoolAnnouncement { instance, events, bytes, oldest } = spool;
    let oldest = oldest.map_or_else(String::new, |at| format!(", the oldest of {}", at.format("%F %TZ")));
    let what = format!(
        "{instance} holds {events} bills ({bytes} bytes{oldest}), as it said {} s ago",
        age.as_secs()
    );
    let means = if age > STALE {
        "bills lie on that gateway's disk, and it has not been heard since: start it again with its disk; neither Redis nor the \
         ledger knows them"
    } else {
        "bills lie on that gateway's disk until Redis takes them; neither Redis nor the ledger knows them"
    };
    (what, means)
}
