//! Calls under one request id go one after the other.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use spend_queue::RequestDigest;
use tokio::sync::OwnedMutexGuard;

type Gate = Arc<tokio::sync::Mutex<()>>;
/// A gate, and how many wait before it or are through.
type Row = (Gate, usize);

/// Without turns, a second payload could reach the queue between the first one's failure there and its writing here.
#[derive(Debug, Default)]
pub(crate) struct Turns(Mutex<HashMap<RequestDigest, Row>>);

/// A place in the row of one id; the last one to leave clears it away.
struct Seat<'a> {
    turns: &'a Turns,
    id: RequestDigest,
}

/// The right to go ahead. Fields drop in this order: the gate opens before the seat is given up.
pub(crate) struct Turn<'a> {
    _open: OwnedMutexGuard<()>,
    _seat: Seat<'a>,
}

impl Turns {
    /// Waits until no other call under the id is under way.
    pub(crate) async fn wait(&self, id: RequestDigest) -> Turn<'_> {
        let gate = {
            let mut rows = self.lock();
            let (gate, seats) = rows.entry(id).or_default();
            *seats += 1;
            Arc::clone(gate)
        };
        let seat = Seat { turns: self, id };
        Turn { _open: gate.lock_owned().await, _seat: seat }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RequestDigest, Row>> {
        // Each change is one step.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        let mut rows = self.turns.lock();
        if let Entry::Occupied(mut row) = rows.entry(self.id) {
            row.get_mut().1 -= 1;
            if row.get().1 == 0 {
                row.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn one_id_waits_for_itself_only_and_leaves_nothing_behind() {
        let turns = Turns::default();
        let (one, two) = (RequestDigest::of("one"), RequestDigest::of("two"));
        let first = turns.wait(one).await;
        let other = turns.wait(two).await;
        let mut second = Box::pin(turns.wait(one));
        assert!(second.as_mut().now_or_never().is_none());
        let third = Box::pin(turns.wait(one));
        drop((first, other, third));
        drop(second.await);
        assert!(turns.lock().is_empty());
    }

    #[tokio::test]
    async fn a_caller_that_goes_while_it_waits_leaves_nothing_behind() {
        let turns = Turns::default();
        let id = RequestDigest::of("one");
        let first = turns.wait(id).await;
        let mut second = Box::pin(turns.wait(id));
        assert!(second.as_mut().now_or_never().is_none());
        drop(first);
        drop(second);
        assert!(turns.lock().is_empty());
    }
}
