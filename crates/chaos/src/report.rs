//! What a run saw, for people and as one JSON object.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::checker::{Breach, Verdict};
use crate::fault::Kind;
use crate::logs::Moments;
use crate::run::Durability;
use crate::sabotage::Planted;

/// What a run saw.
#[derive(Debug)]
pub struct Report {
    pub(crate) seed: u64,
    pub(crate) durability: Durability,
    pub(crate) seconds: f64,
    pub(crate) faults: BTreeMap<Kind, u32>,
    /// Ids that were meant to be charged.
    pub(crate) events: usize,
    pub(crate) answers: u64,
    pub(crate) unknown: usize,
    pub(crate) duplicates: u64,
    pub(crate) conflicts: u64,
    pub(crate) admitted: u64,
    pub(crate) refused: u64,
    pub(crate) settled: usize,
    pub(crate) settled_picos: i128,
    /// From the last fault's end until the queue was empty and every gateway had its answers.
    pub(crate) drain_seconds: f64,
    pub(crate) restarts: [u32; 2],
    pub(crate) moments: Moments,
    pub(crate) verdict: Verdict,
    pub(crate) planted: Vec<Planted>,
    /// Where journals and logs are kept: after a failure.
    pub(crate) kept: Option<PathBuf>,
}

impl Report {
    /// Whether every promise was kept, and every planted falsehood seen.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.verdict.is_clean() && self.planted.iter().all(|planted| planted.caught)
    }

    /// How many faults there were.
    #[must_use]
    pub fn fault_count(&self) -> u32 {
        self.faults.values().sum()
    }

    /// One JSON object.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let faults: BTreeMap<_, _> = self.faults.iter().map(|(kind, count)| (kind.name(), count)).collect();
        let planted: BTreeMap<_, _> =
            self.planted.iter().map(|planted| (planted.sabotage.name(), planted.caught)).collect();
        json!({
            "passed": self.passed(),
            "seed": self.seed,
            "durability": self.durability.name(),
            "seconds": rounded(self.seconds),
            "fault_count": self.fault_count(),
            "faults": faults,
            "events": self.events,
            "answers": self.answers,
            "unknown": self.unknown,
            "duplicates": self.duplicates,
            "conflicts": self.conflicts,
            "admitted": self.admitted,
            "refused": self.refused,
            "settled": self.settled,
            // Text: a JSON number would round it.
            "settled_pusd": self.settled_picos.to_string(),
            "lost": self.verdict.count(Breach::Lost),
            "charged_twice": self.verdict.count(Breach::ChargedTwice),
            "drain_seconds": rounded(self.drain_seconds),
            "gateway_restarts": self.restarts[0],
            "flusher_restarts": self.restarts[1],
            "moments": self.moments.named().into_iter().collect::<BTreeMap<_, _>>(),
            "breaches": self.verdict.lines(),
            "sabotage": planted,
            "kept": self.kept,
        })
    }
}

fn rounded(seconds: f64) -> f64 {
    (seconds * 10.0).round() / 10.0
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let durability = self.durability.name();
        writeln!(f, "seed {}, Redis durability {durability}, {:.0} s", self.seed, self.seconds)?;
        writeln!(f, "{} faults of {} kinds:", self.fault_count(), self.faults.len())?;
        for (kind, count) in &self.faults {
            writeln!(f, "  {count:>4}  {kind}")?;
        }
        writeln!(
            f,
            "{} admitted, {} refused; {} events meant, {} answers ({} duplicates, {} conflicts), {} unknown",
            self.admitted,
            self.refused,
            self.events,
            self.answers,
            self.duplicates,
            self.conflicts,
            self.unknown
        )?;
        let restarts = self.restarts;
        writeln!(f, "{} events settled, {} picodollars", self.settled, self.settled_picos)?;
        writeln!(f, "gateways started again {} times, flushers {} times", restarts[0], restarts[1])?;
        let moments = self.moments.named().map(|(name, count)| format!("{name} {count}"));
        writeln!(f, "seen in the logs: {}", moments.join(", "))?;
        writeln!(f, "drained {:.1} s after the last fault", self.drain_seconds)?;
        for planted in &self.planted {
            let caught = if planted.caught { "seen" } else { "NOT SEEN" };
            writeln!(f, "planted {}: {caught} {:?}", planted.sabotage.name(), planted.verdict.lines())?;
        }
        for line in self.verdict.lines() {
            writeln!(f, "BREACH {line}")?;
        }
        if let Some(kept) = &self.kept {
            writeln!(f, "journals and logs: {}", kept.display())?;
            writeln!(f, "the same faults again: --seed {} --durability {durability}", self.seed)?;
        }
        write!(f, "{}", if self.passed() { "passed" } else { "FAILED" })
    }
}
