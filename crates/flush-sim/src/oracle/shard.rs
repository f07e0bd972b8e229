//! What a shard must hold, and what each call may do to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use spend_queue::{Acked, BatchLimit, Chain, EncodedEvent, Enqueued, Peeked, Receipt, Reindexed, Stop};

use super::Item;
use crate::violation::{Rule, Violation, must};

/// How a bill was lost, within what is declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// A replica took over that had not heard of it.
    FailOver,
    /// Another hand took it off or overwrote it.
    ForeignHand,
}

/// What a fail-over takes back.
#[derive(Debug, Clone)]
pub(crate) struct Past {
    pub(crate) items: Vec<Arc<Item>>,
    /// Request ids that the queue must know, with the first 4 bytes of their payload's digest.
    seen: BTreeMap<String, [u8; 4]>,
    next: u64,
    chain: Chain,
}

/// A shard as it must be.
#[derive(Debug, Default)]
pub(crate) struct ShardView {
    now: Past,
    /// Request ids that were accepted and are not settled.
    pub(crate) owed: BTreeSet<String>,
    pub(crate) lost: BTreeMap<String, Loss>,
}

impl Default for Past {
    fn default() -> Self {
        Self { items: Vec::new(), seen: BTreeMap::new(), next: 1, chain: Chain::GENESIS }
    }
}

impl core::ops::Deref for ShardView {
    type Target = Past;

    fn deref(&self) -> &Past {
        &self.now
    }
}

impl ShardView {
    pub(crate) fn past(&self) -> Past {
        self.now.clone()
    }

    /// Takes in what another hand made of the list.
    pub(crate) fn replace(&mut self, items: Vec<Arc<Item>>) {
        self.now.items = items;
    }

    pub(crate) fn forget(&mut self, id: &str) {
        self.now.seen.remove(id);
    }

    /// A request id that the queue must know.
    pub(crate) fn known(&self, nth: usize) -> Option<&String> {
        self.now.seen.keys().nth(nth)
    }

    pub(crate) fn known_len(&self) -> usize {
        self.now.seen.len()
    }

    /// Takes in a fail-over to what was; answers whether entries came back that had been taken off.
    pub(crate) fn fail_over(&mut self, past: Past) -> bool {
        let same = |one: &Arc<Item>, among: &[Arc<Item>]| among.iter().any(|other| other.raw == one.raw);
        for item in self.now.items.iter().filter(|item| !same(item, &past.items)) {
            if let Some(id) = item.id() {
                self.lost.insert(id.clone(), Loss::FailOver);
            }
        }
        let mut back = false;
        for item in past.items.iter().filter(|item| !same(item, &self.now.items)) {
            back = true;
            if let Some(id) = item.id() {
                self.lost.remove(id);
            }
        }
        self.now = past;
        back
    }

    /// Whether the list is the one that is expected.
    pub(crate) fn unchanged(&self, raw: &[Vec<u8>], what: &str) -> Result<(), Violation> {
        same(&self.now.items, raw, what)
    }

    pub(crate) fn enqueued(
        &mut self,
        event: &EncodedEvent,
        outcome: Option<Enqueued>,
        raw: &[Vec<u8>],
        appended: Option<Arc<Item>>,
    ) -> Result<(), Violation> {
        let (id, check) = (event.request_id(), event.payload_check().short());
        let known = self.now.seen.get(id).copied();
        let Some(Enqueued::Accepted { seq, depth }) = outcome else {
            self.unchanged(raw, "an enqueue that accepted nothing")?;
            return match outcome {
                Some(Enqueued::Duplicate) => must(known == Some(check), Rule::FirstPayloadWins, || {
                    format!("{id} is answered as a duplicate, and the shard never held it")
                }),
                Some(Enqueued::Conflict) => {
                    must(known.is_some_and(|known| known != check), Rule::FirstPayloadWins, || {
                        format!("{id} is answered as a conflict, and is none")
                    })
                }
                _ => Ok(()),
            };
        };
        must(known.is_none(), Rule::FirstPayloadWins, || format!("{id} is queued a second time"))?;
        let (Some(item), Some((_, before))) = (appended, raw.split_last()) else {
            let detail = format!("{id} was accepted, and the list is empty");
            return Err(Violation { rule: Rule::CallsDoWhatTheySay, detail });
        };
        same(&self.now.items, before, "an enqueue, before the entry that it appended")?;
        let chain = event.chain_after(self.now.chain, self.now.next);
        let link = item.entry.as_ref().and_then(|entry| entry.link);
        let sound = seq == self.now.next && link.is_some_and(|link| link.seq == seq && link.chain == chain);
        must(sound, Rule::ChainUnbroken, || {
            format!("{id} should be number {} with link {chain}, and is {link:?}", self.now.next)
        })?;
        let right = item.id().is_some_and(|queued| queued == id)
            && item.check == *event.payload_check().as_bytes()
            && usize::try_from(depth) == Ok(raw.len());
        must(right, Rule::CallsDoWhatTheySay, || {
            format!("{id} was queued as {:?}, depth {depth}", item.id())
        })?;
        self.now.items.push(item);
        self.now.seen.insert(id.to_owned(), check);
        (self.now.next, self.now.chain) = (seq + 1, chain);
        self.owed.insert(id.to_owned());
        self.lost.remove(id);
        Ok(())
    }

    pub(crate) fn peeked(
        &self,
        peeked: &Peeked,
        limit: BatchLimit,
        raw: &[Vec<u8>],
    ) -> Result<(), Violation> {
        self.unchanged(raw, "a peek")?;
        let items = &self.now.items;
        let length = peeked.entries.len();
        let prefix = length <= items.len()
            && peeked.entries.iter().zip(items).all(|(entry, item)| entry.raw() == item.raw)
            && items[..length].windows(2).all(|pair| pair[1].follows(&pair[0]));
        must(prefix, Rule::CallsDoWhatTheySay, || "a peek is no prefix with an unbroken chain".to_owned())?;
        let asked = usize::try_from(limit.get()).unwrap_or(usize::MAX).min(items.len());
        let whole = match &peeked.stop {
            None => length == asked,
            Some(Stop::Corrupt { position, .. }) => {
                *position == length && length < asked && items[length].entry.is_none()
            }
            Some(Stop::ChainBreak { position }) => {
                *position == length
                    && length > 0
                    && length < asked
                    && !items[length].follows(&items[length - 1])
            }
            Some(_) => false,
        };
        must(whole, Rule::CallsDoWhatTheySay, || {
            format!("a peek of {limit} has {length} entries and ends for {:?}", peeked.stop)
        })
    }

    /// Compares the list with what an acknowledgement makes of it; returns what it took off.
    pub(crate) fn acked(
        &mut self,
        receipt: &Receipt,
        outcome: Acked,
        raw: &[Vec<u8>],
    ) -> Result<Vec<Arc<Item>>, Violation> {
        let Acked::Done { depth, .. } = outcome else {
            self.unchanged(raw, "an acknowledgement that changed nothing")?;
            return Ok(Vec::new());
        };
        let count = usize::try_from(receipt.entries).unwrap_or(usize::MAX).min(self.now.items.len());
        let rest = self.now.items.split_off(count);
        let taken = core::mem::replace(&mut self.now.items, rest);
        self.unchanged(raw, "an acknowledgement")?;
        must(usize::try_from(depth) == Ok(raw.len()), Rule::CallsDoWhatTheySay, || {
            format!("an acknowledgement answers that {depth} are left, of {}", raw.len())
        })?;
        Ok(taken)
    }

    pub(crate) fn quarantined(&mut self, head: &[u8], taken: bool, raw: &[Vec<u8>]) -> Result<(), Violation> {
        if taken && !self.now.items.is_empty() {
            let first = self.now.items.remove(0);
            must(first.raw == head, Rule::NothingUncommittedTrimmed, || {
                format!("{:?} was put into quarantine, which nobody asked for", first.id())
            })?;
        }
        self.unchanged(raw, "a quarantine")
    }

    pub(crate) fn reindexed(&mut self, outcome: &Reindexed, raw: &[Vec<u8>]) -> Result<(), Violation> {
        self.unchanged(raw, "a reindex")?;
        let sound = self.now.items.iter().all(|item| item.entry.is_some());
        if matches!(outcome, Reindexed::Rebuilt { .. }) && sound {
            let last = self.now.items.last().and_then(|item| item.entry.as_ref()?.link);
            if let Some(last) = last {
                (self.now.next, self.now.chain) = (last.seq + 1, last.chain);
            }
        }
        Ok(())
    }
}

fn same(items: &[Arc<Item>], raw: &[Vec<u8>], what: &str) -> Result<(), Violation> {
    let same = items.len() == raw.len() && items.iter().zip(raw).all(|(item, raw)| item.raw == *raw);
    must(same, Rule::CallsDoWhatTheySay, || {
        let ids = |items: &[Arc<Item>]| -> Vec<_> { items.iter().map(|item| item.id().cloned()).collect() };
        let found: Vec<_> = raw.iter().map(|raw| Item::read(raw.clone())).map(Arc::new).collect();
        format!("{what} left {:?}, and {:?} is expected", ids(&found), ids(items))
    })
}
