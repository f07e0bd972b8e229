//! Reads of one thing that many ask for at once: nobody is given what was read before it asked, and no two read the same at
//! the same time.
//!
//! Whoever comes while a read is under way waits for the next one, which serves all who have come until it begins. So a key
//! costs its servers one read at a time however many requests it makes, and a single request waits for nobody.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Mutex as Turn;
use tokio::time::Instant;

/// The most things that are remembered; then all are forgotten, which costs a read that could have been shared.
const MAX_THINGS: usize = 10_000;

/// What many ask for, by what it is of.
#[derive(Debug)]
pub(crate) struct SharedReads<K, T>(Mutex<HashMap<K, Arc<Thing<T>>>>);

#[derive(Debug)]
struct Thing<T> {
    /// Whoever has it reads.
    turn: Turn<()>,
    /// The last read, and when it began.
    last: Mutex<Option<(Instant, Arc<T>)>>,
}

impl<K: Eq + Hash + Clone, T> SharedReads<K, T> {
    pub(crate) fn new() -> Self {
        Self(Mutex::default())
    }

    /// What a read gives that began after this call.
    pub(crate) async fn get(&self, key: &K, read: impl Future<Output = T>) -> Arc<T> {
        let asked = Instant::now();
        let thing = self.thing(key);
        let _turn = thing.turn.lock().await;
        // Not at the same instant: clocks have steps.
        if let Some((_, value)) = thing.last().as_ref().filter(|(began, _)| *began > asked) {
            return Arc::clone(value);
        }
        let began = Instant::now();
        let value = Arc::new(read.await);
        *thing.last() = Some((began, Arc::clone(&value)));
        value
    }

    /// What the last read gave, however old it is.
    pub(crate) fn last(&self, key: &K) -> Option<Arc<T>> {
        self.thing(key).last().as_ref().map(|(_, value)| Arc::clone(value))
    }

    fn thing(&self, key: &K) -> Arc<Thing<T>> {
        let mut things = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thing) = things.get(key) {
            return Arc::clone(thing);
        }
        if things.len() >= MAX_THINGS {
            things.clear();
        }
        let thing = Thing { turn: Turn::new(()), last: Mutex::new(None) };
        Arc::clone(things.entry(key.clone()).or_insert_with(|| Arc::new(thing)))
    }
}

impl<T> Thing<T> {
    fn last(&self) -> MutexGuard<'_, Option<(Instant, Arc<T>)>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod random;

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use futures_util::FutureExt;
    use futures_util::future::join_all;
    use tokio::sync::Semaphore;

    use super::*;

    /// Reads that end when they may.
    struct Slow {
        begun: AtomicU32,
        may_end: Semaphore,
    }

    impl Slow {
        fn new() -> Self {
            Self { begun: AtomicU32::new(0), may_end: Semaphore::new(0) }
        }

        /// How many reads have begun before it.
        async fn read(&self) -> u32 {
            let nth = self.begun.fetch_add(1, Ordering::Relaxed);
            self.may_end.acquire().await.unwrap().forget();
            nth
        }
    }

    #[tokio::test]
    async fn who_comes_during_a_read_shares_the_next_one() {
        let (shared, slow) = (SharedReads::new(), Slow::new());
        let mut first = Box::pin(shared.get(&"key", slow.read()));
        assert!(first.as_mut().now_or_never().is_none());
        let mut others = Box::pin(join_all((0..5).map(|_| shared.get(&"key", slow.read()))));
        assert!(others.as_mut().now_or_never().is_none());
        slow.may_end.add_permits(1);
        assert_eq!(*first.await, 0);
        // Clocks have steps.
        tokio::time::sleep(Duration::from_millis(1)).await;
        slow.may_end.add_permits(1);
        assert!(others.await.iter().all(|nth| **nth == 1));
        // Nobody is given what was read before it asked.
        slow.may_end.add_permits(1);
        let third = shared.get(&"key", slow.read());
        assert_eq!(shared.last(&"key").as_deref(), Some(&1));
        assert_eq!((*third.await, shared.last(&"other")), (2, None));
    }

    #[tokio::test]
    async fn different_things_are_read_at_the_same_time() {
        let (shared, slow) = (SharedReads::new(), Slow::new());
        let mut both = Box::pin(join_all([1, 2].iter().map(|key| shared.get(key, slow.read()))));
        assert!(both.as_mut().now_or_never().is_none());
        assert_eq!(slow.begun.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn a_reader_that_is_cancelled_leaves_its_turn_to_the_next() {
        let shared = SharedReads::new();
        assert!(shared.get(&1, pending::<u32>()).now_or_never().is_none());
        assert_eq!(*shared.get(&1, async { 7 }).await, 7);
    }
}
