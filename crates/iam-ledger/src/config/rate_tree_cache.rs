//! The rate trees that a gateway decides with.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use rate_plan::{RatePlan, RateTree};
use spend_queue::ScopeRef;
use tokio::sync::Mutex;

use crate::bounded::Bounded;
use crate::{Identity, Ledger, LedgerError, ScopeKind};

/// How often a tree is read again because it changed while it was read, before the next poll has to find it.
const ATTEMPTS: usize = 3;

/// Rate trees by billing root, read when they are first asked for and again when a [`ConfigWatch`](crate::ConfigWatch)
/// learns of a change. Without one they never change. Cheap to clone; all clones are one cache.
#[derive(Clone)]
pub struct RateTreeCache(Arc<Inner>);

struct Inner {
    ledger: Ledger,
    slots: Bounded<ScopeRef, Arc<Slot>>,
}

/// One root's tree. It is there from the moment when a read of it begins, so that a change in between finds it.
#[derive(Default)]
struct Slot {
    current: RwLock<Option<Current>>,
    /// How many changes were heard of.
    changes: AtomicU64,
    /// One reader at a time asks the database.
    reading: Mutex<()>,
}

#[derive(Clone)]
struct Current {
    tree: Arc<RateTree>,
    version: i64,
    /// The changes that were heard of before it was read.
    changes: u64,
}

impl RateTreeCache {
    /// An empty cache of at most so many trees, at least 1; the least recently used go first. A tree of 100 nodes takes
    /// some 20 kB.
    #[must_use]
    pub fn new(ledger: Ledger, max_trees: usize) -> Self {
        Self(Arc::new(Inner { ledger, slots: Bounded::new(max_trees) }))
    }

    /// The tree of a billing root if it was read before. Never waits for the database.
    #[must_use]
    pub fn cached(&self, root: &ScopeRef) -> Option<Arc<RateTree>> {
        self.0.slots.get(root)?.current().map(|current| current.tree)
    }

    /// The tree of a billing root: an organization, or a user without one. Asks the database only the first time; callers
    /// who ask for the same tree meanwhile wait for one query.
    ///
    /// # Errors
    ///
    /// Those of [`Ledger::rate_tree`]. Nothing is remembered of a root that does not exist.
    pub async fn get(&self, root: &ScopeRef) -> Result<Arc<RateTree>, LedgerError> {
        if let Some(tree) = self.cached(root) {
            return Ok(tree);
        }
        let slot = self.0.slots.get_or_insert(root.clone(), Arc::default);
        self.load(root, &slot).await
    }

    /// What admission needs to know of a key: its root's tree, and its path in it. A tree that does not know the key is older
    /// than the key, so it is read once more.
    ///
    /// # Errors
    ///
    /// As [`RateTreeCache::get`]; [`LedgerError::NotFound`] when the tree does not know the key then either: it was deleted,
    /// or moved to another root, after it was authenticated.
    pub async fn plan(&self, identity: &Identity) -> Result<RatePlan, LedgerError> {
        let root = identity.root();
        if let Some(plan) = plan_in(&self.get(root).await?, identity) {
            return Ok(plan);
        }
        self.changed(root);
        let slot = self.0.slots.get_or_insert(root.clone(), Arc::default);
        let tree = self.load(root, &slot).await?;
        plan_in(&tree, identity)
            .ok_or_else(|| LedgerError::NotFound { kind: ScopeKind::Key, id: identity.key_id().to_owned() })
    }

    /// How many trees there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.slots.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads a tree again if it is here.
    pub(super) async fn reload(&self, root: &ScopeRef) -> Result<(), LedgerError> {
        let Some(slot) = self.0.slots.get(root) else { return Ok(()) };
        match self.load(root, &slot).await {
            Ok(_) | Err(LedgerError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Notes a change. What is here stays in use until it is read again.
    pub(super) fn changed(&self, root: &ScopeRef) {
        if let Some(slot) = self.0.slots.get(root) {
            slot.changes.fetch_add(1, Ordering::AcqRel);
        }
    }

    pub(super) fn roots(&self) -> Vec<ScopeRef> {
        self.0.slots.map(|root, _| root.clone())
    }

    /// The roots whose trees are of other versions than these; a root that is not among them is at 0.
    pub(super) fn outdated(&self, versions: &HashMap<ScopeRef, i64>) -> Vec<ScopeRef> {
        let outdated = self.0.slots.map(|root, slot| {
            let version = versions.get(root).copied().unwrap_or(0);
            slot.current().is_some_and(|current| current.version != version).then(|| root.clone())
        });
        outdated.into_iter().flatten().collect()
    }

    async fn load(&self, root: &ScopeRef, slot: &Slot) -> Result<Arc<RateTree>, LedgerError> {
        let _turn = slot.reading.lock().await;
        if let Some(current) = slot.current().filter(|it| it.changes == slot.changes.load(Ordering::Acquire))
        {
            return Ok(current.tree);
        }
        let mut attempt = 1;
        loop {
            let changes = slot.changes.load(Ordering::Acquire);
            let kind = ScopeKind::from_word(root.kind()).unwrap_or(ScopeKind::Key);
            let (tree, version) = match self.0.ledger.versioned_tree(kind, root.id()).await {
                Ok(found) => found,
                Err(error) => {
                    // What was never read need not be remembered, and what is gone must not.
                    if matches!(error, LedgerError::NotFound { .. }) || slot.current().is_none() {
                        self.0.slots.remove(root);
                    }
                    return Err(error);
                }
            };
            let tree = match slot.current() {
                // The same limits keep the same tree, so that whoever compares pointers sees no change.
                Some(current) if current.tree.fingerprint() == tree.fingerprint() => current.tree,
                _ => Arc::new(tree),
            };
            let current = Current { tree: Arc::clone(&tree), version, changes };
            *slot.current.write().unwrap_or_else(PoisonError::into_inner) = Some(current);
            if attempt == ATTEMPTS || slot.changes.load(Ordering::Acquire) == changes {
                return Ok(tree);
            }
            attempt += 1;
        }
    }
}

/// The path of a key; `None` when the tree does not know it.
fn plan_in(tree: &Arc<RateTree>, identity: &Identity) -> Option<RatePlan> {
    let leaf = tree.find(ScopeKind::Key.as_str(), identity.key_id())?;
    // A node that the tree has found is in it.
    tree.plan(leaf).ok()
}

impl Slot {
    fn current(&self) -> Option<Current> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl fmt::Debug for RateTreeCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateTreeCache").field("trees", &self.len()).finish_non_exhaustive()
    }
}
