//! The oracle: what must be true, worked out beside the models from what calls did.
//!
//! It never asks a model what it should hold. For each shard it keeps a list of its own, and compares it with the model's
//! after each call; from the commits that took effect it adds up what the ledger must show.

mod books;
mod item;
mod shard;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use chrono::DateTime;
use spend_queue::{Index, MemoryQueueError, Millis, ORGANIZATION, ScopeRef, Shard, ShardCount, Usd};

use crate::violation::{Rule, Violation, must};
pub(crate) use books::Books;
pub(crate) use item::Item;
pub(crate) use shard::{Loss, Past, ShardView};

/// Everything that must be true.
#[derive(Debug, Default)]
pub(crate) struct Oracle {
    pub(crate) books: Books,
    shards: BTreeMap<Shard, ShardView>,
    read: HashMap<Vec<u8>, Arc<Item>>,
    /// What stood where another hand put something else.
    overwritten: HashMap<Vec<u8>, Arc<Item>>,
}

/// What a strict read must answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strict {
    /// This amount.
    Exactly(i128),
    /// This amount or an error: an entry was overwritten where no strict read looks (decision 12): in the middle of a list, or
    /// behind a link that was kept. Its original still counts.
    Hidden(i128),
    /// An error.
    Unknown,
}

impl Oracle {
    pub(crate) fn new(count: ShardCount) -> Self {
        Self { shards: count.iter().map(|shard| (shard, ShardView::default())).collect(), ..Self::default() }
    }

    pub(crate) fn view(&mut self, shard: Shard) -> &mut ShardView {
        self.shards.entry(shard).or_default()
    }

    pub(crate) fn views(&self) -> impl Iterator<Item = (&Shard, &ShardView)> {
        self.shards.iter()
    }

    /// Reads bytes, or remembers what they read as.
    pub(crate) fn item(&mut self, raw: &[u8]) -> Arc<Item> {
        if let Some(item) = self.read.get(raw) {
            return Arc::clone(item);
        }
        let item = Arc::new(Item::read(raw.to_vec()));
        self.read.insert(raw.to_vec(), Arc::clone(&item));
        item
    }

    /// Takes in that another hand put `raw` in the place of `original`, or beside it.
    pub(crate) fn overwrite(&mut self, raw: &[u8], original: &Arc<Item>) {
        self.overwritten.insert(raw.to_vec(), Arc::clone(original));
    }

    /// What stood in a place before another hand wrote to it; what stands there, if none did.
    pub(crate) fn original<'a>(&'a self, item: &'a Arc<Item>) -> &'a Arc<Item> {
        self.overwritten.get(&item.raw).unwrap_or(item)
    }

    /// What accepted entries of a shard are owed: to be in the list or in the ledger, or to be lost in a way that is known.
    pub(crate) fn check_owed(&mut self, shard: Shard) -> Result<(), Violation> {
        let Some(view) = self.shards.get_mut(&shard) else { return Ok(()) };
        let books = &self.books;
        view.owed.retain(|id| !books.is_settled(id));
        for id in &view.owed {
            let queued = view.items.iter().any(|item| item.id() == Some(id));
            must(queued || view.lost.contains_key(id), Rule::NothingLost, || {
                format!("{id} was accepted in shard {shard} and is neither there nor in the ledger")
            })?;
        }
        Ok(())
    }

    /// Why each bill that nobody will settle was lost.
    pub(crate) fn losses(&self) -> impl Iterator<Item = (&str, Loss)> {
        let books = &self.books;
        let lost = self.shards.values().flat_map(|view| &view.lost);
        lost.filter(|(id, _)| !books.is_settled(id)).map(|(id, loss)| (id.as_str(), *loss))
    }

    /// What is pending for a scope; of events that started at `since` or later, or that do not say when, where it is given.
    pub(crate) fn pending(
        &self,
        index: &BTreeMap<Shard, Index>,
        scope: &ScopeRef,
        since: Option<Millis>,
    ) -> Strict {
        let (mut sum, mut hidden) = (0, false);
        for (shard, view) in &self.shards {
            for item in &view.items {
                let mut item = item;
                if item.entry.is_none() {
                    if index.get(shard) != Some(&Index::Proven) {
                        return Strict::Unknown;
                    }
                    hidden = true;
                    item = self.original(item);
                }
                sum += item.charge(scope, since);
            }
        }
        if hidden { Strict::Hidden(sum) } else { Strict::Exactly(sum) }
    }
}

impl Strict {
    /// Compares an answer with what it must be.
    pub(crate) fn check(
        self,
        scope: &ScopeRef,
        answer: &Result<Usd, MemoryQueueError>,
    ) -> Result<(), Violation> {
        let right = match (self, answer) {
            (Self::Exactly(sum) | Self::Hidden(sum), Ok(answer)) => answer.picos() == sum,
            (Self::Exactly(_), Err(_)) | (Self::Unknown, Ok(_)) => false,
            (Self::Hidden(_) | Self::Unknown, Err(_)) => true,
        };
        must(right, Rule::PendingExact, || format!("{scope}: {self:?} picodollars expected, {answer:?} read"))
    }
}

/// The organization that a scope is, for reads by time.
pub(crate) fn organization(scope: &ScopeRef) -> Option<&str> {
    (scope.kind() == ORGANIZATION).then(|| scope.id())
}

/// An instant that lies this many hours before the beginning of the run.
pub(crate) fn hours_before(hours: i64) -> DateTime<chrono::Utc> {
    let since = crate::plan::beginning().checked_sub_signed(chrono::TimeDelta::hours(hours));
    since.unwrap_or_default()
}
