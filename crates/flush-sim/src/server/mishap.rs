//! What happens to a queue from outside: fail-overs, other hands, a bounded memory.

use std::sync::Arc;

use rand::Rng;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;
use spend_queue::{RequestDigest, Shard};

use super::{Before, LAG, Server};
use crate::oracle::{Item, Loss};
use crate::plan::Plan;
use crate::tally::{Fault, Situation, Tally};

impl Server {
    /// A shard as it is, if there may be a fail-over to it.
    pub(super) fn before(&mut self, shard: Shard) -> Option<Before> {
        self.remembers.then(|| Before {
            state: self.queue.snapshot(shard),
            past: self.oracle.view(shard).past(),
            marks: self.marks.get(&shard).cloned(),
        })
    }

    /// Takes in that an operation changed a shard.
    pub(super) fn record(&mut self, shard: Shard, before: Option<Before>) {
        let Some(before) = before else { return };
        let history = self.history.entry(shard).or_default();
        if history.len() == LAG {
            history.pop_front();
        }
        history.push_back(before);
    }

    /// A replica takes over a shard that has not heard of its last operations; for the trace.
    pub(crate) fn fail_over(
        &mut self,
        plan: &Plan,
        rng: &mut ChaCha8Rng,
        tally: &mut Tally,
    ) -> Option<String> {
        let shard = any_shard(plan, rng)?;
        let history = self.history.get_mut(&shard).filter(|history| !history.is_empty())?;
        let lost = rng.random_range(1..=history.len());
        let before = history.drain(history.len() - lost..).next()?;
        self.queue.rewind(before.state);
        self.trusted.remove(&shard);
        if self.bug != Some(crate::Bug::MarksElsewhere) {
            self.marks.insert(shard, before.marks.unwrap_or_default());
        }
        if self.oracle.view(shard).fail_over(before.past) {
            tally.situation(Situation::CameBack);
        }
        tally.fault(Fault::FailOver);
        Some(format!("shard {shard} fails over to a replica that lacks {lost} operations"))
    }

    /// The queue forgets a request id; for the trace.
    pub(crate) fn forget(&mut self, plan: &Plan, rng: &mut ChaCha8Rng, tally: &mut Tally) -> Option<String> {
        let shard = any_shard(plan, rng)?;
        let view = self.oracle.view(shard);
        let nth = rng.random_range(0..view.known_len().max(1));
        let id = view.known(nth)?.clone();
        view.forget(&id);
        self.queue.forget(shard, &RequestDigest::of(&id));
        if let Some(marks) = self.marks.get_mut(&shard) {
            marks.remove(&id);
        }
        tally.fault(Fault::Forgotten);
        Some(format!("shard {shard} forgets {id}"))
    }

    /// Another hand changes a list; for the trace.
    pub(crate) fn foreign(&mut self, plan: &Plan, rng: &mut ChaCha8Rng, tally: &mut Tally) -> Option<String> {
        let shard = any_shard(plan, rng)?;
        let before = self.before(shard);
        let mut items = self.oracle.view(shard).items.clone();
        let place = rng.random_range(0..items.len().max(1));
        let (fault, what) = match rng.random_range(0..7) {
            0 => {
                let garbage = self.garbage(items.choose(rng), rng);
                let what = format!("puts {garbage:?} before the head");
                items.insert(0, garbage);
                (Fault::ForeignPush, what)
            }
            1 => {
                let garbage = self.garbage(items.choose(rng), rng);
                let what = format!("appends {garbage:?}");
                items.push(garbage);
                (Fault::ForeignPush, what)
            }
            2 => {
                let copy = Arc::clone(items.get(place)?);
                let what = format!("appends a copy of {:?}", copy.id());
                items.push(copy);
                (Fault::ForeignPush, what)
            }
            3 => {
                // By its ends, a batch that is under way would stand there once more.
                let last = rng.random_range(2..=3);
                items.get(2 * last - 1)?;
                let (head, end) = (Arc::clone(&items[0]), Arc::clone(&items[last]));
                let what = format!("puts copies of {:?} and {:?} around others", head.id(), end.id());
                items.insert(last + 1, head);
                items.insert(2 * last + 1, end);
                (Fault::ForeignPush, what)
            }
            4 => {
                let original = Arc::clone(items.get(place)?);
                let garbage = self.garbage(Some(&original), rng);
                let what = format!("overwrites {:?} at {place} by {garbage:?}", original.id());
                items[place] = garbage;
                self.lose(shard, &items, &original);
                (Fault::ForeignOverwrite, what)
            }
            end => {
                let place = if end == 5 { 0 } else { items.len().checked_sub(1)? };
                let taken = (place < items.len()).then(|| items.remove(place))?;
                self.lose(shard, &items, &taken);
                (Fault::ForeignPop, format!("takes {:?} off at {place}", taken.id()))
            }
        };
        self.queue.tamper(shard, |list| *list = items.iter().map(|item| item.raw.clone()).collect());
        self.oracle.view(shard).replace(items);
        self.record(shard, before);
        tally.fault(fault);
        Some(format!("another hand {what} in shard {shard}"))
    }

    /// Takes in that a bill left a list, unless another copy stays.
    fn lose(&mut self, shard: Shard, left: &[Arc<Item>], taken: &Item) {
        if let Some(id) = taken.id().filter(|id| !left.iter().any(|item| item.id() == Some(id))) {
            self.oracle.view(shard).lost.insert(id.clone(), Loss::ForeignHand);
        }
    }

    /// Bytes that no enqueue wrote, and that were never seen before. Some begin as an entry does that is there.
    fn garbage(&mut self, near: Option<&Arc<Item>>, rng: &mut ChaCha8Rng) -> Arc<Item> {
        self.garbage += 1;
        let number = self.garbage;
        let text = near.and_then(|item| core::str::from_utf8(&item.raw).ok());
        let raw = match (rng.random_range(0..4), text) {
            (0, Some(entry)) => {
                // The link is whole, the event is not.
                let cut = entry.floor_char_boundary(entry.len() * 3 / 4);
                format!("{}{number}", &entry[..cut]).into_bytes()
            }
            (1, Some(entry)) => {
                entry.replacen("\"format\":2", &format!("\"format\":{}", number + 2), 1).into_bytes()
            }
            (2, _) => [&b"\xff\xfe"[..], number.to_string().as_bytes()].concat(),
            _ => format!("garbage {number}").into_bytes(),
        };
        let item = self.oracle.item(&raw);
        if item.entry.is_some() {
            return self.oracle.item(format!("garbage {number}").as_bytes());
        }
        // Put beside an entry with its link: when the entry is then taken, that is as if it had been overwritten.
        if let Some(near) = near {
            let original = Arc::clone(self.oracle.original(near));
            self.oracle.overwrite(&item.raw, &original);
        }
        item
    }
}

fn any_shard(plan: &Plan, rng: &mut ChaCha8Rng) -> Option<Shard> {
    plan.shards.iter().nth(rng.random_range(0..usize::from(plan.shards.get())))
}
