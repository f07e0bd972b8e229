//! A map that many read at once, and that never holds more than it may.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// When it is full, the least recently used part of it goes at once, so that the search for it is paid by many inserts.
const EVICTED_OF_FULL: usize = 8;

pub(crate) struct Bounded<K, V> {
    entries: RwLock<HashMap<K, Entry<V>>>,
    capacity: usize,
    /// Counts uses; the largest number was used last.
    clock: AtomicU64,
}

struct Entry<V> {
    value: V,
    used: AtomicU64,
}

impl<K: Eq + Hash, V: Clone> Bounded<K, V> {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { entries: RwLock::new(HashMap::new()), capacity: capacity.max(1), clock: AtomicU64::new(0) }
    }

    pub(crate) fn get(&self, key: &K) -> Option<V> {
        let entries = self.read();
        let entry = entries.get(key)?;
        entry.used.store(self.tick(), Ordering::Relaxed);
        Some(entry.value.clone())
    }

    /// What is there already, else what is made now.
    pub(crate) fn get_or_insert(&self, key: K, make: impl FnOnce() -> V) -> V {
        let mut entries = self.write();
        if let Some(entry) = entries.get(&key) {
            return entry.value.clone();
        }
        let value = make();
        self.put(&mut entries, key, value.clone());
        value
    }

    pub(crate) fn insert(&self, key: K, value: V) {
        let mut entries = self.write();
        self.put(&mut entries, key, value);
    }

    pub(crate) fn remove(&self, key: &K) {
        self.write().remove(key);
    }

    /// Keeps what passes, and says how many did not.
    pub(crate) fn retain(&self, mut keep: impl FnMut(&K, &V) -> bool) -> usize {
        let mut entries = self.write();
        let before = entries.len();
        entries.retain(|key, entry| keep(key, &entry.value));
        before - entries.len()
    }

    pub(crate) fn len(&self) -> usize {
        self.read().len()
    }

    /// What a function makes of every entry, in no order.
    pub(crate) fn map<T>(&self, mut f: impl FnMut(&K, &V) -> T) -> Vec<T> {
        self.read().iter().map(|(key, entry)| f(key, &entry.value)).collect()
    }

    fn put(&self, entries: &mut HashMap<K, Entry<V>>, key: K, value: V) {
        if entries.len() >= self.capacity && !entries.contains_key(&key) {
            let mut uses: Vec<u64> =
                entries.values().map(|entry| entry.used.load(Ordering::Relaxed)).collect();
            let place = (uses.len() / EVICTED_OF_FULL).min(uses.len() - 1);
            let (_, oldest_kept, _) = uses.select_nth_unstable(place);
            let oldest_kept = *oldest_kept;
            entries.retain(|_, entry| entry.used.load(Ordering::Relaxed) > oldest_kept);
        }
        entries.insert(key, Entry { value, used: AtomicU64::new(self.tick()) });
    }

    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed)
    }

    // No code that can panic runs under the lock, so that a poisoned one is as good as any.
    fn read(&self) -> RwLockReadGuard<'_, HashMap<K, Entry<V>>> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<K, Entry<V>>> {
        self.entries.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_was_used_last_stays() {
        let map = Bounded::new(16);
        for n in 0..16 {
            map.insert(n, n);
        }
        assert_eq!(map.get(&0), Some(0));
        map.insert(16, 16);
        assert_eq!(
            (map.get(&0), map.get(&1), map.get(&15), map.get(&16)),
            (Some(0), None, Some(15), Some(16))
        );
    }

    proptest! {
        #[test]
        fn it_never_holds_more_than_it_may(capacity in 0_usize..20, keys in prop::collection::vec(0_u8..40, 0..200)) {
            let map = Bounded::new(capacity);
            for key in keys {
                map.insert(key, key);
                prop_assert_eq!(map.get(&key), Some(key));
                prop_assert!(map.len() <= capacity.max(1));
            }
        }
    }
}
