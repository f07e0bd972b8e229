//! What every handle may see without asking the disk.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use spend_queue::Millis;

use crate::record::Record;
use crate::store::{Changed, Index, Totals};

/// What a spool holds at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpoolStatus {
    /// Events that wait, those set aside included.
    pub events: u64,
    /// The bytes of their bodies.
    pub bytes: u64,
    /// The most that these and those of conflicting events may be together.
    pub max_bytes: u64,
    /// Events among them that the queue refused for good at least once; they are asked again when no other waits.
    pub set_aside: u64,
    /// When the event that has waited longest was encoded.
    pub oldest: Option<Millis>,
    /// Conflicting events, kept until [`crate::Spool::take_conflict`] takes them out.
    pub conflicts: u64,
    /// The bytes of their bodies, which count against `max_bytes` too.
    pub conflict_bytes: u64,
}

/// What the spool knows of a request id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known {
    SamePayload,
    AnotherPayload,
}

impl Known {
    pub(crate) fn of(kept: &[u8; 16], given: &[u8; 16]) -> Self {
        if kept == given { Self::SamePayload } else { Self::AnotherPayload }
    }
}

/// What is durable; the writer alone changes it.
#[derive(Debug)]
pub(crate) struct State {
    max_bytes: u64,
    inner: RwLock<Inner>,
}

#[derive(Debug)]
struct Inner {
    totals: Totals,
    oldest: Option<Millis>,
    index: HashMap<[u8; 16], [u8; 16]>,
}

impl State {
    pub(crate) fn new(max_bytes: u64, contents: &Changed, index: Index) -> Self {
        let inner = Inner { totals: contents.totals, oldest: contents.oldest, index };
        Self { max_bytes, inner: RwLock::new(inner) }
    }

    pub(crate) fn status(&self) -> SpoolStatus {
        let inner = self.read();
        let Totals { events, bytes, set_aside, conflicts, conflict_bytes, .. } = inner.totals;
        SpoolStatus {
            events,
            bytes,
            max_bytes: self.max_bytes,
            set_aside,
            oldest: inner.oldest,
            conflicts,
            conflict_bytes,
        }
    }

    pub(crate) fn known(&self, digest: &[u8; 16], check: &[u8; 16]) -> Option<Known> {
        self.read().index.get(digest).map(|kept| Known::of(kept, check))
    }

    pub(crate) fn took_in(&self, changed: &Changed, inserted: &[Record]) {
        let mut inner = self.write();
        for digest in &changed.gone {
            inner.index.remove(digest);
        }
        inner.index.extend(inserted.iter().map(|record| (record.digest, record.check)));
        (inner.totals, inner.oldest) = (changed.totals, changed.oldest);
    }

    pub(crate) fn replace(&self, contents: &Changed, index: Index) {
        *self.write() = Inner { totals: contents.totals, oldest: contents.oldest, index };
    }

    // The writer panics in no step that holds the lock.
    fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }
}
