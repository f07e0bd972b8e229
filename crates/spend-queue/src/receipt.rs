//! What a look at the head of a queue gives, and what its acknowledgement must prove.

use core::fmt;
use core::str::FromStr;
use std::collections::BTreeMap;

use thiserror::Error;

use crate::{Charge, Entry, EntryError, Millis, PrefixDigest, ScopeRef, Shard, Start, Usd};

/// The most entries of one peek or acknowledgement.
pub const MAX_BATCH: u32 = 10_000;
/// The most bytes of entries that one peek returns (a single entry is always returned).
pub const MAX_PEEK_BYTES: usize = 8 << 20;

/// How many entries to look at: 1 to 10,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BatchLimit(u32);

/// A batch limit outside 1 to 10,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a batch of {0} asked for, 1 to {MAX_BATCH} are possible")]
pub struct BatchLimitError(pub u32);

impl BatchLimit {
    /// One entry.
    pub const MIN: Self = Self(1);
    /// As many as one call may name.
    pub const MAX: Self = Self(MAX_BATCH);

    /// So many entries.
    ///
    /// # Errors
    ///
    /// When the number is 0 or above [`MAX_BATCH`].
    pub const fn new(entries: u32) -> Result<Self, BatchLimitError> {
        if entries == 0 || entries > MAX_BATCH { Err(BatchLimitError(entries)) } else { Ok(Self(entries)) }
    }

    /// The number of entries.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// A text that is no batch limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a whole number of entries from 1 to {MAX_BATCH} is accepted")]
pub struct ParseBatchLimitError;

impl FromStr for BatchLimit {
    type Err = ParseBatchLimitError;

    fn from_str(text: &str) -> Result<Self, ParseBatchLimitError> {
        text.parse().ok().and_then(|entries| Self::new(entries).ok()).ok_or(ParseBatchLimitError)
    }
}

impl fmt::Display for BatchLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The head of a shard: entries that can be committed, as one batch or as several in their order, and why they end where they
/// end.
#[derive(Debug, Clone, PartialEq)]
pub struct Peeked {
    /// Where they were read.
    pub shard: Shard,
    /// A prefix of the queue, oldest first, with an unbroken chain.
    pub entries: Vec<Entry>,
    /// How many entries the shard held at that moment.
    pub depth: u64,
    /// Why the batch ends before the entries that were looked at did.
    pub stop: Option<Stop>,
    /// Whether the shard's index of pending spend is proven to match its entries.
    pub index: Index,
}

/// Whether a shard's index of pending spend can be relied on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Index {
    /// Length, head and tail of the list are what the queue's own scripts made them, and no script found otherwise.
    #[default]
    Proven,
    /// Another hand touched the list or the index: strict reads go through the entries until the index is rebuilt.
    Doubtful,
}

/// Why a batch ends early. Only [`Stop::Corrupt`] needs an operator, and only when it stands at the head.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stop {
    /// The next item is no entry, and cannot be told from a damaged one. It may be a bill, so nothing skips it.
    Corrupt {
        /// Its place in the list, 0 for the head.
        position: usize,
        /// Its bytes.
        raw: Vec<u8>,
        /// What is wrong with it.
        error: EntryError,
    },
    /// The next entry is sound but does not follow from the one before it: something between them was taken
    /// or put by another hand. It starts a batch of its own: a batch is one unbroken piece of the chain.
    ChainBreak {
        /// Its place in the list.
        position: usize,
    },
    /// The costs of the entries together would exceed what a counter holds, and so might those of a scope.
    AmountBound {
        /// The place of the entry that did not fit.
        position: usize,
    },
}

/// Names the whole prefix that was committed (docs/decisions/0002). An acknowledgement of anything else changes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// The shard to trim.
    pub shard: Shard,
    /// How many entries to take off the head.
    pub entries: u32,
    /// What they are, byte for byte.
    pub digest: PrefixDigest,
    /// The sequence numbers of the first and the last one, to be shown; `None` where entries have none.
    pub seqs: Option<(u64, u64)>,
    /// What the entries added to the counters, so what is to be subtracted.
    pub charges: BTreeMap<ScopeRef, Charge>,
    /// What they added to the index by time.
    pub starts: BTreeMap<Start, Usd>,
}

impl Peeked {
    /// Reads the raw head of a list: the longest prefix that decodes, with an unbroken chain where there is one. What does not
    /// decode, and is proven by the chain to be what was enqueued, is part of it ([`Entry::problem`]).
    ///
    /// What every implementation of [`crate::SpendQueue`] returns from a peek, so all agree on where a batch ends.
    pub fn read(shard: Shard, raw: impl IntoIterator<Item = Vec<u8>>, depth: u64, index: Index) -> Self {
        let mut peeked = Self { shard, entries: Vec::new(), depth, stop: None, index };
        let mut cost = Usd::ZERO;
        let decode = if shard.is_older() { Entry::decode_older } else { Entry::decode };
        for (position, raw) in raw.into_iter().enumerate() {
            let stop = match decode(raw.clone()) {
                Err(error) => match peeked.proven(&raw, &error) {
                    Some(entry) => {
                        peeked.entries.push(entry);
                        None
                    }
                    None => Some(Stop::Corrupt { position, raw, error }),
                },
                Ok(entry) if peeked.breaks(&entry) => Some(Stop::ChainBreak { position }),
                Ok(entry) => match cost.checked_add(entry.event.cost.unwrap_or_default()) {
                    Some(sum) if sum.counter().is_ok() => {
                        cost = sum;
                        peeked.entries.push(entry);
                        None
                    }
                    _ => Some(Stop::AmountBound { position }),
                },
            };
            if stop.is_some() {
                peeked.stop = stop;
                break;
            }
        }
        peeked
    }

    /// When the oldest entry was queued; its event's end or start where the entry does not say.
    #[must_use]
    pub fn oldest(&self) -> Option<Millis> {
        let Entry { link, event, .. } = self.entries.first()?;
        let queued = link.map(|link| link.queued);
        queued.or_else(|| event.ended_at.or(event.started_at).map(Millis::of))
    }

    /// An entry that cannot be decoded, if the one before it proves that it is whole.
    fn proven(&self, raw: &[u8], error: &EntryError) -> Option<Entry> {
        if self.shard.is_older() { None } else { Entry::proven(self.entries.last(), raw, error) }
    }

    fn breaks(&self, entry: &Entry) -> bool {
        !self.shard.is_older() && self.entries.last().is_some_and(|before| !entry.follows(before))
    }

    /// The receipt for the whole batch, to be given back once it is committed; `None` when there is no entry.
    #[must_use]
    pub fn receipt(&self) -> Option<Receipt> {
        Receipt::of(self.shard, &self.entries)
    }
}

impl Receipt {
    /// For entries that stand at the head of their shard, or will once what was peeked before them is taken off; `None` when
    /// there is no entry.
    ///
    /// What one peek returned may be committed as several batches. Each is an unbroken piece of it with a receipt of its own, and
    /// they are acknowledged in their order: a receipt that is given back too early names no head, and changes nothing.
    #[must_use]
    pub fn of(shard: Shard, entries: &[Entry]) -> Option<Self> {
        let (first, last) = (entries.first()?, entries.last()?);
        let mut receipt = Self {
            shard,
            entries: u32::try_from(entries.len()).ok()?,
            digest: PrefixDigest::of(entries.iter().map(Entry::raw)),
            seqs: first.link.zip(last.link).map(|(first, last)| (first.seq, last.seq)),
            charges: BTreeMap::new(),
            starts: BTreeMap::new(),
        };
        entries.iter().for_each(|entry| receipt.charge(entry));
        Some(receipt)
    }

    /// Adds what an entry added to the counters. No sum exceeds one: the peek had ended before ([`Stop::AmountBound`]).
    fn charge(&mut self, entry: &Entry) {
        let Some(cost) = entry.event.paid() else { return };
        let at = entry.link.and(entry.event.started_at).map(Millis::of);
        for scope in entry.counters() {
            let charge = self.charges.entry(scope.clone()).or_default();
            charge.amount = charge.amount.checked_add(cost).unwrap_or(charge.amount);
            charge.paid_events += 1;
            if let Some(start) = at.and_then(|at| Start::of(scope, at)) {
                let amount = self.starts.entry(start).or_default();
                *amount = amount.checked_add(cost).unwrap_or(*amount);
            }
        }
    }
}
