//! What happened in a run, counted: faults that were injected, and situations that must have been reached.

use core::fmt;
use std::collections::BTreeMap;

/// A kind of call that goes over the simulated network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Call {
    /// A producer appends an event.
    Enqueue,
    /// A flusher or the operator looks at the head of a shard.
    Peek,
    /// A flusher takes a batch off.
    Ack,
    /// A flusher or the operator makes an index anew.
    Reindex,
    /// The operator asks for a shard's depth.
    Depth,
    /// The operator takes an unreadable head off.
    Quarantine,
    /// A flusher settles a batch.
    Commit,
}

impl Call {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Enqueue, Self::Peek, Self::Ack, Self::Reindex, Self::Depth, Self::Quarantine, Self::Commit];
}

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// The call fails before it has an effect.
    RequestLost(Call),
    /// The call fails after it had its effect.
    ReplyLost(Call),
    /// The call fails at once and has its effect later, when its caller has gone on.
    Late(Call),
    /// The call has its effect twice, the second time later.
    Twice(Call),
    /// The caller died meanwhile; the call has its effect later.
    Orphaned(Call),
    /// The caller died meanwhile; the call never arrives.
    CutOff(Call),
    /// The ledger takes long for a commit, and others commit meanwhile.
    Stall,
    /// The ledger gives a transaction up for the sake of another one.
    Serialization,
    /// A flusher dies, wherever it is.
    FlusherCrash,
    /// A producer dies, wherever it is.
    ProducerCrash,
    /// The operator's tool dies, wherever it is.
    OperatorCrash,
    /// The clock of a process jumps forwards.
    ClockForwards,
    /// The clock of a process jumps backwards.
    ClockBackwards,
    /// A replica takes over that has not heard of the last operations on a shard.
    FailOver,
    /// Another hand puts something into a list.
    ForeignPush,
    /// Another hand takes something off a list.
    ForeignPop,
    /// Another hand overwrites an entry.
    ForeignOverwrite,
    /// The queue forgets a request id.
    Forgotten,
}

impl Fault {
    /// All of them, those of the network for each call.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let network =
            [Self::RequestLost, Self::ReplyLost, Self::Late, Self::Twice, Self::Orphaned, Self::CutOff];
        let mut all: Vec<_> = network.iter().flat_map(|fault| Call::ALL.map(fault)).collect();
        all.extend([
            Self::Stall,
            Self::Serialization,
            Self::FlusherCrash,
            Self::ProducerCrash,
            Self::OperatorCrash,
            Self::ClockForwards,
            Self::ClockBackwards,
            Self::FailOver,
            Self::ForeignPush,
            Self::ForeignPop,
            Self::ForeignOverwrite,
            Self::Forgotten,
        ]);
        all
    }
}

/// A state of affairs that the faults are there to bring about. A simulation that never gets there proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Situation {
    /// The queue knew a request id with this payload.
    Duplicate,
    /// The queue knew a request id with another payload.
    Conflict,
    /// An acknowledgement took a batch off.
    Acknowledged,
    /// An acknowledgement took a batch off while the same flusher committed the next.
    Overlapped,
    /// A flusher was told to stop between two batches.
    Stopped,
    /// An acknowledgement found another prefix and did nothing.
    AckChanged,
    /// An acknowledgement found counters that held too little.
    ShortCounters,
    /// The ledger knew an entry with this payload.
    SettledBefore,
    /// The ledger knew a request id with another payload.
    SettledOtherwise,
    /// A commit took effect, and its caller was told of an error.
    CommitUnknown,
    /// The head of a shard could not be read.
    CorruptHead,
    /// A batch ended where the chain breaks.
    ChainBreak,
    /// An index was in doubt.
    Doubt,
    /// An index was made anew.
    Rebuilt,
    /// An index could not be made anew.
    ReindexBlocked,
    /// The operator took an unreadable head off.
    Quarantined,
    /// A strict read gave an exact amount above zero.
    StrictAmount,
    /// A strict read was refused.
    StrictRefused,
    /// An entry was overwritten where no strict read looks (decision 12); its bill still counted as pending.
    HiddenOverwrite,
    /// A bill was lost to a fail-over, within the class that is declared.
    LostToFailOver,
    /// A bill was lost to another hand, within the class that is declared.
    LostToForeignHand,
    /// A fail-over brought entries back that were settled and taken off before.
    CameBack,
}

impl Situation {
    /// All of them.
    pub const ALL: [Self; 22] = [
        Self::Duplicate,
        Self::Conflict,
        Self::Acknowledged,
        Self::Overlapped,
        Self::Stopped,
        Self::AckChanged,
        Self::ShortCounters,
        Self::SettledBefore,
        Self::SettledOtherwise,
        Self::CommitUnknown,
        Self::CorruptHead,
        Self::ChainBreak,
        Self::Doubt,
        Self::Rebuilt,
        Self::ReindexBlocked,
        Self::Quarantined,
        Self::StrictAmount,
        Self::StrictRefused,
        Self::HiddenOverwrite,
        Self::LostToFailOver,
        Self::LostToForeignHand,
        Self::CameBack,
    ];
}

/// Numbers of one run, or of many.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tally {
    /// Runs.
    pub seeds: u64,
    /// Steps of the scheduler: a task polled, or a request served.
    pub steps: u64,
    /// The most steps that one run needed to drain after the faults had stopped.
    pub longest_drain: u64,
    /// Request ids that were settled.
    pub settled: u64,
    /// How often each fault was injected.
    pub faults: BTreeMap<Fault, u64>,
    /// How often each situation was reached.
    pub situations: BTreeMap<Situation, u64>,
}

impl Tally {
    pub(crate) fn fault(&mut self, fault: Fault) {
        *self.faults.entry(fault).or_default() += 1;
    }

    pub(crate) fn situation(&mut self, situation: Situation) {
        *self.situations.entry(situation).or_default() += 1;
    }

    /// Adds the numbers of another.
    pub fn add(&mut self, other: &Self) {
        self.seeds += other.seeds;
        self.steps += other.steps;
        self.longest_drain = self.longest_drain.max(other.longest_drain);
        self.settled += other.settled;
        for (fault, count) in &other.faults {
            *self.faults.entry(*fault).or_default() += count;
        }
        for (situation, count) in &other.situations {
            *self.situations.entry(*situation).or_default() += count;
        }
    }

    /// The faults and situations that never occurred, by name.
    #[must_use]
    pub fn missing(&self) -> Vec<String> {
        let faults = Fault::all().into_iter().filter(|fault| !self.faults.contains_key(fault));
        let situations = Situation::ALL.into_iter().filter(|one| !self.situations.contains_key(one));
        faults.map(|fault| fault.to_string()).chain(situations.map(|one| one.to_string())).collect()
    }
}

/// `ForeignPush` as `foreign push`.
fn spaced(name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (at, c) in name.char_indices() {
        if c.is_uppercase() && at > 0 {
            f.write_str(" ")?;
        }
        write!(f, "{}", c.to_ascii_lowercase())?;
    }
    Ok(())
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        spaced(&format!("{self:?}"), f)
    }
}

impl fmt::Display for Situation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        spaced(&format!("{self:?}"), f)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = format!("{self:?}");
        match name.split_once('(') {
            None => spaced(&name, f),
            Some((kind, call)) => {
                spaced(call.trim_end_matches(')'), f)?;
                f.write_str(": ")?;
                spaced(kind, f)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words() {
        assert_eq!(Fault::ReplyLost(Call::Commit).to_string(), "commit: reply lost");
        assert_eq!(Fault::ForeignPush.to_string(), "foreign push");
        assert_eq!(Situation::LostToFailOver.to_string(), "lost to fail over");
    }

    #[test]
    fn what_never_occurred_is_named() {
        let mut tally = Tally::default();
        assert_eq!(tally.missing().len(), Fault::all().len() + Situation::ALL.len());
        Fault::all().into_iter().for_each(|fault| tally.fault(fault));
        Situation::ALL.into_iter().for_each(|one| tally.situation(one));
        assert!(tally.missing().is_empty());
    }
}
