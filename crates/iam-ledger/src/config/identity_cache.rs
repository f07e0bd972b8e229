//! The identities that a gateway authenticated lately.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};
use secrecy::SecretString;
use spend_queue::ScopeRef;

use super::change::ConfigChange;
use crate::bounded::Bounded;
use crate::key::SecretHmac;
use crate::{Identity, Keyring, LedgerError};

/// How much is kept, and for how long at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdentityCacheOptions {
    /// The most identities, at least 1; the least recently used go first. One takes about a kilobyte. Default: 10,000.
    pub max_identities: usize,
    /// When an identity is asked for again although nothing was heard of it: the bound on how long a replaced secret
    /// or a lifted block can last if notifications and polls both fail. 0 keeps nothing. Default: 60 s.
    pub max_age: Duration,
}

impl Default for IdentityCacheOptions {
    fn default() -> Self {
        Self { max_identities: 10_000, max_age: Duration::from_secs(60) }
    }
}

/// Who presented which secret, by the secret's HMAC: the secret itself is not kept. Identities leave when a
/// [`ConfigWatch`](crate::ConfigWatch) learns of a change and at their highest age. Unknown secrets are not remembered, so
/// that nobody can push out others by guessing. Cheap to clone; all clones are one cache.
#[derive(Clone)]
pub struct IdentityCache(Arc<Inner>);

struct Inner {
    keyring: Keyring,
    max_age: Duration,
    entries: Bounded<SecretHmac, Entry>,
    /// How many changes were heard of. What was asked for before the last one is not kept.
    changes: AtomicU64,
}

#[derive(Clone)]
struct Entry {
    identity: Arc<Identity>,
    since: DateTime<Utc>,
    valid_until: Option<DateTime<Utc>>,
}

impl IdentityCache {
    /// An empty cache.
    #[must_use]
    pub fn new(keyring: Keyring, options: IdentityCacheOptions) -> Self {
        Self(Arc::new(Inner {
            keyring,
            max_age: options.max_age,
            entries: Bounded::new(options.max_identities),
            changes: AtomicU64::new(0),
        }))
    }

    /// Who presents this secret: from memory if it was presented lately, else by one query.
    ///
    /// # Errors
    ///
    /// Those of [`Keyring::authenticate`]. What is in memory is found although the database does not answer.
    pub async fn authenticate(
        &self,
        secret: &SecretString,
        now: DateTime<Utc>,
    ) -> Result<Arc<Identity>, LedgerError> {
        let hmac = self.0.keyring.hmac(secret)?;
        if let Some(entry) = self.0.entries.get(&hmac).filter(|entry| self.is_usable(entry, now)) {
            return Ok(entry.identity);
        }
        let changes = self.0.changes.load(Ordering::Acquire);
        let found = match self.0.keyring.look_up(&hmac, now).await {
            Ok(found) => found,
            Err(error) => {
                if matches!(error, LedgerError::NotAuthenticated) {
                    self.0.entries.remove(&hmac);
                }
                return Err(error);
            }
        };
        let identity = Arc::new(found.identity);
        let entry = Entry { identity: Arc::clone(&identity), since: now, valid_until: found.valid_until };
        // A change that was heard of while the query ran may be one that the query did not see.
        if self.0.changes.load(Ordering::Acquire) == changes {
            self.0.entries.insert(hmac, entry);
            if self.0.changes.load(Ordering::Acquire) != changes {
                self.0.entries.remove(&hmac);
            }
        }
        Ok(identity)
    }

    /// How many identities there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.entries.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops what a change may have made wrong.
    pub(super) fn changed(&self, change: &ConfigChange) {
        self.0.changes.fetch_add(1, Ordering::AcqRel);
        if change.keys.as_ref().is_some_and(Vec::is_empty) {
            return;
        }
        self.0.entries.retain(|_, entry| {
            entry.identity.root() != &change.root
                || change
                    .keys
                    .as_ref()
                    .is_some_and(|keys| keys.iter().all(|key| key != entry.identity.key_id()))
        });
    }

    pub(super) fn roots(&self) -> Vec<ScopeRef> {
        self.0.entries.map(|_, entry| entry.identity.root().clone())
    }

    /// Drops identities of other versions than these; a root that is not among them is at 0.
    pub(super) fn drop_outdated(&self, versions: &HashMap<ScopeRef, i64>) -> usize {
        self.0.entries.retain(|_, entry| {
            entry.identity.version() == versions.get(entry.identity.root()).copied().unwrap_or(0)
        })
    }

    fn is_usable(&self, entry: &Entry, now: DateTime<Utc>) -> bool {
        // A clock that went backwards makes no entry older, so such entries are asked for again.
        let age = (now - entry.since).to_std().ok();
        age.is_some_and(|age| age < self.0.max_age) && entry.valid_until.is_none_or(|until| now < until)
    }
}

impl fmt::Debug for IdentityCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdentityCache").field("identities", &self.len()).finish_non_exhaustive()
    }
}
