//! What a look at the head of a queue gives, and what its acknowledgement must prove.

use core::fmt;
use core::str::FromStr;
use std::collections::BTreeMap;

use thiserror::Error;

use crate::{Chain, Charge, Entry, EntryError, ScopeRef, Shard, Usd};

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

/// The head of a shard: the entries that can be committed as one batch, and why they end where they end.
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
    charges: BTreeMap<ScopeRef, Charge>,
}

/// Why a batch ends early. Only [`Stop::Corrupt`] needs an operator, and only when it stands at the head.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stop {
    /// The next item is no entry. It may be a bill, so nothing skips it.
    Corrupt {
        /// Its place in the list, 0 for the head.
        position: usize,
        /// Its bytes.
        raw: Vec<u8>,
        /// What is wrong with it.
        error: EntryError,
    },
    /// The next entry is sound but does not follow from the one before it: something between them was taken
    /// or put by another hand. It starts a batch of its own, since no chain proves both sides.
    ChainBreak {
        /// Its place in the list.
        position: usize,
    },
    /// The charges of one scope would exceed what a counter holds.
    AmountBound {
        /// The place of the entry that did not fit.
        position: usize,
    },
}

/// Names the whole prefix that was committed: its first and last bytes, and through the last one's chain all
/// between them (design D7). An acknowledgement of anything else changes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// The shard to trim.
    pub shard: Shard,
    /// How many entries to take off the head.
    pub entries: u32,
    /// The raw first entry.
    pub head: Vec<u8>,
    /// The raw last entry.
    pub last: Vec<u8>,
    /// The sequence number of the first entry.
    pub first_seq: u64,
    /// The sequence number of the last entry.
    pub last_seq: u64,
    /// The link of the last entry.
    pub chain: Chain,
    /// What the entries added to the counters, so what is to be subtracted.
    pub charges: BTreeMap<ScopeRef, Charge>,
}

impl Peeked {
    /// Reads the raw head of a list: the longest prefix that decodes with an unbroken chain.
    ///
    /// What every implementation of [`crate::SpendQueue`] returns from a peek, so all agree on where a batch ends.
    pub fn read(shard: Shard, raw: impl IntoIterator<Item = Vec<u8>>, depth: u64) -> Self {
        let mut peeked = Self { shard, entries: Vec::new(), depth, stop: None, charges: BTreeMap::new() };
        for (position, raw) in raw.into_iter().enumerate() {
            let stop = match Entry::decode(raw.clone()) {
                Err(error) => Some(Stop::Corrupt { position, raw, error }),
                Ok(entry) if peeked.entries.last().is_some_and(|before| !entry.follows(before)) => {
                    Some(Stop::ChainBreak { position })
                }
                Ok(entry) if !peeked.charge(&entry) => Some(Stop::AmountBound { position }),
                Ok(entry) => {
                    peeked.entries.push(entry);
                    None
                }
            };
            if stop.is_some() {
                peeked.stop = stop;
                break;
            }
        }
        peeked
    }

    /// Adds an entry's charges; `false`, with nothing added, when a sum would not fit a counter.
    fn charge(&mut self, entry: &Entry) -> bool {
        let Some(cost) = entry.event.paid() else { return true };
        let sum = |scope| self.charges.get(scope).copied().unwrap_or_default().amount.checked_add(cost);
        let fits = |scope| sum(scope).is_some_and(|sum: Usd| sum.counter().is_ok());
        if !entry.event.scopes.iter().all(fits) {
            return false;
        }
        for scope in &entry.event.scopes {
            let charge = self.charges.entry(scope.clone()).or_default();
            charge.amount = charge.amount.checked_add(cost).unwrap_or(charge.amount);
            charge.paid_events += 1;
        }
        true
    }

    /// The receipt for the whole batch, to be given back once it is committed; `None` when there is no entry.
    #[must_use]
    pub fn receipt(&self) -> Option<Receipt> {
        let (first, last) = (self.entries.first()?, self.entries.last()?);
        Some(Receipt {
            shard: self.shard,
            entries: u32::try_from(self.entries.len()).ok()?,
            head: first.raw().to_vec(),
            last: last.raw().to_vec(),
            first_seq: first.seq,
            last_seq: last.seq,
            chain: last.chain,
            charges: self.charges.clone(),
        })
    }
}
