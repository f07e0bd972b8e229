//! What the ledger must show.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use iam_ledger::Committed;
use spend_queue::{Entry, ScopeRef, Shard, Usd};

use crate::ledger::LedgerModel;
use crate::violation::{Rule, Violation, must};

/// Added up from the commits that took effect, the first payload of each request id.
#[derive(Debug, Default)]
pub(crate) struct Books {
    /// What producers meant to send: request id and payload.
    sent: BTreeSet<(String, [u8; 16])>,
    settled: BTreeMap<String, [u8; 16]>,
    /// All payloads that went through a commit that took effect.
    committed: HashSet<(String, [u8; 16])>,
    sums: BTreeMap<ScopeRef, i128>,
}

impl Books {
    /// Takes in that a producer may send this.
    pub(crate) fn intend(&mut self, request_id: &str, payload: [u8; 16]) {
        self.sent.insert((request_id.to_owned(), payload));
    }

    pub(crate) fn is_settled(&self, request_id: &str) -> bool {
        self.settled.contains_key(request_id)
    }

    pub(crate) fn settled(&self) -> usize {
        self.settled.len()
    }

    /// Whether a commit that took effect had this payload, whether it was charged or found to be settled.
    pub(crate) fn is_committed(&self, entry: &Entry) -> bool {
        let check = *entry.payload_check().as_bytes();
        self.committed.contains(&(entry.event.request_id.clone(), check))
    }

    /// Takes in a commit that took effect, and compares what it answered.
    pub(crate) fn commit(
        &mut self,
        shard: Shard,
        entries: &[Entry],
        answer: &Committed,
    ) -> Result<(), Violation> {
        let broken = entries.windows(2).position(|pair| !pair[1].follows(&pair[0]));
        must(broken.is_none(), Rule::ChainUnbroken, || {
            format!("a batch of shard {shard} goes on behind a break, at entry {broken:?}")
        })?;
        let mut expected = Committed::default();
        for entry in entries {
            let (id, check) = (&entry.event.request_id, *entry.payload_check().as_bytes());
            must(self.sent.contains(&(id.clone(), check)), Rule::NothingInvented, || {
                format!("{id} is settled with a payload that nobody sent")
            })?;
            self.committed.insert((id.clone(), check));
            match self.settled.get(id) {
                None => {
                    expected.new += 1;
                    expected.cost = expected
                        .cost
                        .checked_add(entry.event.paid().unwrap_or_default())
                        .unwrap_or(Usd::ZERO);
                    self.settled.insert(id.clone(), check);
                    for scope in &entry.event.scopes {
                        let paid = entry.event.paid().unwrap_or_default();
                        *self.sums.entry(scope.clone()).or_default() += paid.picos();
                    }
                }
                Some(payload) if *payload == check => expected.duplicates += 1,
                Some(_) => expected.conflicts.push(id.clone()),
            }
        }
        must(*answer == expected, Rule::ChargedOnce, || format!("{expected:?} expected, {answer:?} answered"))
    }

    /// Compares everything with the ledger.
    pub(crate) fn compare(&self, ledger: &LedgerModel, scopes: &[ScopeRef]) -> Result<(), Violation> {
        must(ledger.len() == self.settled.len(), Rule::ChargedOnce, || {
            format!("{} request ids expected in the ledger, {} found", self.settled.len(), ledger.len())
        })?;
        for scope in scopes {
            let (expected, found) = (self.sums.get(scope).copied().unwrap_or_default(), ledger.sum(scope));
            must(found == expected, Rule::ChargedOnce, || {
                format!("{scope}: {expected} picodollars expected in the ledger, {found} found")
            })?;
        }
        Ok(())
    }

    /// Compares each request id with the ledger, too.
    pub(crate) fn compare_all(&self, ledger: &LedgerModel, scopes: &[ScopeRef]) -> Result<(), Violation> {
        self.compare(ledger, scopes)?;
        for (id, payload) in &self.settled {
            must(ledger.payload(id) == Some(payload), Rule::ChargedOnce, || {
                format!(
                    "{id} is in the ledger with another payload than the first that was committed, or not at all"
                )
            })?;
        }
        Ok(())
    }
}
