//! The independent judge of a run: journals on one side, raw rows and raw keys on the other.
//!
//! Nothing here uses the crates under test. What was meant comes from the journals, what is settled from plain SQL, what
//! waits from plain Redis commands, and money is added up in integers that are parsed from decimal text.

mod keys;
mod limits;
mod money;
mod rows;
mod truth;

use std::collections::BTreeMap;
use std::fmt;

pub(crate) use keys::{check_keys, queue_length};
pub(crate) use limits::check_limits;
pub(crate) use rows::{Settled, check_ledger};
pub(crate) use truth::Truth;

/// How many violations of one sort are told in full.
const TOLD: usize = 5;

/// A sort of broken promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Breach {
    /// An event that was acknowledged and durable is not settled.
    Lost,
    /// A request has more than one usage event.
    ChargedTwice,
    /// A request is settled that nobody meant.
    NotIntended,
    /// A settled request does not have its first payload.
    WrongPayload,
    /// The guard and the events do not hold the same requests.
    HalfSettled,
    /// A scope's sum is not that of its events.
    ScopeSum,
    /// A day's sums are not those of its events.
    DaySum,
    /// The queue accepted an id twice.
    AcceptedTwice,
    /// Another payload under a known id was not called a conflict, or the same payload was.
    WrongAnswer,
    /// More was admitted in a minute than a limit allows.
    LimitExceeded,
    /// Keys of the queue or its index are left although it was drained.
    KeysLeft,
    /// The queue was not drained in time.
    NotDrained,
    /// A process panicked, or did not end when asked.
    Process,
    /// A log shows a secret.
    Secret,
    /// A kind of fault did not occur.
    KindMissing,
}

impl Breach {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::ChargedTwice => "charged twice",
            Self::NotIntended => "not intended",
            Self::WrongPayload => "wrong payload",
            Self::HalfSettled => "half settled",
            Self::ScopeSum => "scope sum",
            Self::DaySum => "day sum",
            Self::AcceptedTwice => "accepted twice",
            Self::WrongAnswer => "wrong answer",
            Self::LimitExceeded => "limit exceeded",
            Self::KeysLeft => "keys left",
            Self::NotDrained => "not drained",
            Self::Process => "process",
            Self::Secret => "secret",
            Self::KindMissing => "kind missing",
        }
    }
}

/// All broken promises of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    breaches: BTreeMap<Breach, (usize, Vec<String>)>,
}

impl Verdict {
    pub(crate) fn add(&mut self, breach: Breach, detail: impl Into<String>) {
        let (count, told) = self.breaches.entry(breach).or_default();
        *count += 1;
        if told.len() < TOLD {
            told.push(detail.into());
        }
    }

    pub(crate) fn merge(&mut self, other: Self) {
        for (breach, (count, told)) in other.breaches {
            let (ours, details) = self.breaches.entry(breach).or_default();
            *ours += count;
            details.extend(told);
            details.truncate(TOLD);
        }
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.breaches.is_empty()
    }

    pub(crate) fn count(&self, breach: Breach) -> usize {
        self.breaches.get(&breach).map_or(0, |(count, _)| *count)
    }

    /// The sorts that occurred.
    pub(crate) fn breaches(&self) -> impl Iterator<Item = Breach> {
        self.breaches.keys().copied()
    }

    /// One line each, `breach: detail`.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (breach, (count, told)) in &self.breaches {
            lines.extend(told.iter().map(|detail| format!("{}: {detail}", breach.name())));
            if *count > told.len() {
                lines.push(format!("{}: {} more", breach.name(), count - told.len()));
            }
        }
        lines
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.lines().join("\n"))
    }
}
