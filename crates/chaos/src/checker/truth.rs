//! What was meant and what was answered, from the journals alone.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Result, bail};

use super::{Breach, Verdict};
use crate::bill::Bill;
use crate::inject::RedisStop;
use crate::journal::{Answer, Record, read_journals};
use crate::run::Durability;

/// An answer about one of an id's two payloads.
#[derive(Debug, Clone, Copy)]
struct Heard {
    at: i64,
    altered: bool,
    answer: Answer,
}

/// All about one request id.
#[derive(Debug)]
pub(crate) struct Intended {
    bill: Bill,
    altered: Option<Bill>,
    heard: Vec<Heard>,
}

/// Counters of an admission: subject and minute.
pub(crate) type Counter = (String, i64);

/// What all journals of a run say.
#[derive(Debug, Default)]
pub(crate) struct Truth {
    intended: HashMap<String, Intended>,
    /// Requests and tokens that were admitted and not (to be) given back.
    admitted: HashMap<Counter, (i64, i64)>,
    pub(crate) admissions: u64,
    pub(crate) refused: u64,
    pub(crate) answers: u64,
    pub(crate) conflicts: u64,
    pub(crate) duplicates: u64,
    stops: Vec<RedisStop>,
    durability: Durability,
}

impl Truth {
    /// Reads all journals of a folder.
    pub(crate) fn read(folder: &Path, durability: Durability, stops: Vec<RedisStop>) -> Result<Self> {
        Self::of(read_journals(folder, "g")?, durability, stops)
    }

    pub(crate) fn of(
        records: impl IntoIterator<Item = Record>,
        durability: Durability,
        stops: Vec<RedisStop>,
    ) -> Result<Self> {
        let mut truth = Self { durability, stops, ..Self::default() };
        for record in records {
            truth.take(record)?;
        }
        Ok(truth)
    }

    fn take(&mut self, record: Record) -> Result<()> {
        match record {
            Record::Intent { bill, .. } => {
                let intended = Intended { bill, altered: None, heard: Vec::new() };
                let id = intended.bill.id.clone();
                if self.intended.insert(id.clone(), intended).is_some() {
                    bail!("two intents of {id}: the journals are not sound");
                }
            }
            Record::Altered { bill, .. } => match self.intended.get_mut(&bill.id) {
                Some(intended) => intended.altered = Some(bill),
                None => bail!("{} was altered before it was meant: the journals are not sound", bill.id),
            },
            Record::Answered { at, id, altered, answer } => {
                self.answers += 1;
                self.conflicts += u64::from(answer == Answer::Conflict);
                self.duplicates += u64::from(answer == Answer::Duplicate);
                match self.intended.get_mut(&id) {
                    Some(intended) => intended.heard.push(Heard { at, altered, answer }),
                    None => bail!("{id} was answered before it was meant: the journals are not sound"),
                }
            }
            Record::Unknown { .. } => {}
            Record::Admitted { minute, subjects, tokens, .. } => {
                self.admissions += 1;
                self.count(minute, subjects, 1, i64::try_from(tokens)?);
            }
            Record::Refunding { minute, subjects, tokens, .. } => {
                self.count(minute, subjects, -1, -i64::try_from(tokens)?);
            }
            Record::Refused { requests, .. } => self.refused += requests,
        }
        Ok(())
    }

    fn count(&mut self, minute: i64, subjects: Vec<String>, requests: i64, tokens: i64) {
        for subject in subjects {
            let counter = self.admitted.entry((subject, minute)).or_default();
            counter.0 += requests;
            counter.1 += tokens;
        }
    }

    /// Every id that was meant.
    pub(crate) fn intended(&self) -> impl Iterator<Item = (&String, &Intended)> {
        self.intended.iter()
    }

    pub(crate) const fn durability(&self) -> Durability {
        self.durability
    }

    pub(crate) fn get(&self, id: &str) -> Option<&Intended> {
        self.intended.get(id)
    }

    pub(crate) fn events(&self) -> usize {
        self.intended.len()
    }

    /// How many ids have no answer at all: they may be settled once or not.
    pub(crate) fn unknown(&self) -> usize {
        self.intended.values().filter(|intended| intended.heard.is_empty()).count()
    }

    /// What was admitted, by subject and minute.
    pub(crate) fn admitted(&self) -> impl Iterator<Item = (&Counter, &(i64, i64))> {
        self.admitted.iter()
    }

    /// Whether an answer of this instant may have been forgotten by Redis.
    ///
    /// With an append-only file that is flushed before every reply, never. With one that is flushed every second, what was
    /// answered in the two seconds before a kill (Redis may put a flush off for so long). Without one, all before any stop.
    fn may_be_forgotten(&self, at: i64) -> bool {
        self.stops.iter().any(|stop| match self.durability {
            Durability::Always => false,
            Durability::EverySecond => stop.killed && at >= stop.from - 2_000_000 && at <= stop.until,
            Durability::None => at <= stop.until,
        })
    }

    /// Whether counters of this minute may have been forgotten.
    pub(crate) fn minute_may_be_forgotten(&self, minute: i64) -> bool {
        let begins = minute * 60_000_000;
        // A gateway that was suspended may count in a minute that is over.
        self.durability != Durability::Always
            && self.stops.iter().any(|stop| stop.until >= begins && stop.from <= begins + 120_000_000)
    }

    /// Whether the event must be settled: some answer about it is one that Redis cannot have forgotten.
    pub(crate) fn is_owed(&self, intended: &Intended) -> bool {
        intended.heard.iter().any(|heard| !self.may_be_forgotten(heard.at))
    }

    /// Payloads that may be settled: the first; another only if Redis may have forgotten the first and accepted that.
    pub(crate) fn legal<'a>(&self, intended: &'a Intended) -> impl Iterator<Item = &'a Bill> {
        let other = self.durability != Durability::Always
            && intended.heard.iter().any(|heard| heard.altered && heard.answer == Answer::Accepted);
        std::iter::once(&intended.bill).chain(intended.altered.iter().filter(move |_| other))
    }

    /// Judges the answers themselves, where Redis never forgets.
    pub(crate) fn check_answers(&self, verdict: &mut Verdict) {
        if self.durability != Durability::Always {
            return;
        }
        for (id, intended) in &self.intended {
            let of = |altered, answer| {
                intended.heard.iter().filter(|h| h.altered == altered && h.answer == answer).count()
            };
            if of(false, Answer::Accepted) > 1 {
                verdict.add(Breach::AcceptedTwice, format!("{id}: {:?}", intended.heard));
            }
            let wrong =
                of(false, Answer::Conflict) + of(true, Answer::Accepted) + of(true, Answer::Duplicate);
            if wrong > 0 {
                verdict.add(Breach::WrongAnswer, format!("{id}: {:?}", intended.heard));
            }
        }
    }
}

#[cfg(test)]
#[path = "truth_tests.rs"]
mod tests;
