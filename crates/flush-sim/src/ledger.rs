//! The ledger's model: what a transaction of `iam-ledger` does to its tables.

use std::collections::{BTreeMap, BTreeSet};

use iam_ledger::Committed;
use spend_queue::{Entry, ScopeRef, Usd};

use crate::Bug;

/// Request ids with the payload that won, and the sum of each scope.
///
/// The two are kept apart, as they are in PostgreSQL (`settled_requests`, `scope_spend`), so that they can disagree.
#[derive(Debug, Default)]
pub(crate) struct LedgerModel {
    settled: BTreeMap<String, [u8; 16]>,
    sums: BTreeMap<ScopeRef, i128>,
}

impl LedgerModel {
    pub(crate) fn payload(&self, request_id: &str) -> Option<&[u8; 16]> {
        self.settled.get(request_id)
    }

    pub(crate) fn len(&self) -> usize {
        self.settled.len()
    }

    pub(crate) fn ids(&self) -> BTreeSet<String> {
        self.settled.keys().cloned().collect()
    }

    pub(crate) fn sum(&self, scope: &ScopeRef) -> i128 {
        self.sums.get(scope).copied().unwrap_or_default()
    }

    /// One transaction that commits.
    pub(crate) fn commit(
        &mut self,
        entries: &[Entry],
        known: Option<&BTreeSet<String>>,
        bug: Option<Bug>,
    ) -> Committed {
        let mut committed = Committed::default();
        for entry in entries {
            let (id, check) = (&entry.event.request_id, *entry.payload_check().as_bytes());
            if bug == Some(Bug::FreeEventsIgnored) && entry.event.paid().is_none() {
                committed.duplicates += 1;
                continue;
            }
            let before = match (bug, known) {
                (Some(Bug::NoUniqueGuard), _) => None,
                (Some(Bug::StaleGuard), Some(known)) if !known.contains(id) => None,
                _ => self.settled.get(id),
            };
            match before {
                None => {
                    committed.new += 1;
                    committed.cost = add(committed.cost, entry.event.paid());
                    self.settled.insert(id.clone(), check);
                    self.charge(entry);
                }
                Some(payload) if *payload == check => committed.duplicates += 1,
                Some(_) => {
                    committed.conflicts.push(id.clone());
                    if bug == Some(Bug::LastPayloadWins) {
                        self.settled.insert(id.clone(), check);
                        self.charge(entry);
                    }
                }
            }
        }
        committed
    }

    /// What is left of a transaction that was none: the guard was written, the sums were not ([`Bug::HalfCommit`]).
    pub(crate) fn commit_half(&mut self, entries: &[Entry]) {
        for entry in entries {
            let check = *entry.payload_check().as_bytes();
            self.settled.entry(entry.event.request_id.clone()).or_insert(check);
        }
    }

    fn charge(&mut self, entry: &Entry) {
        let Some(cost) = entry.event.paid() else { return };
        for scope in &entry.event.scopes {
            *self.sums.entry(scope.clone()).or_default() += cost.picos();
        }
    }
}

fn add(sum: Usd, cost: Option<Usd>) -> Usd {
    sum.checked_add(cost.unwrap_or_default()).unwrap_or(sum)
}
