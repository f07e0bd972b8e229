//! What stands in a list, read once.

use core::fmt;

use spend_queue::{Entry, Millis, ScopeRef};

/// Bytes of a list, and the entry that they are, if they are one.
pub(crate) struct Item {
    pub(crate) raw: Vec<u8>,
    pub(crate) entry: Option<Entry>,
    /// The digest of the payload; zeros without an entry.
    pub(crate) check: [u8; 16],
}

impl Item {
    pub(crate) fn read(raw: Vec<u8>) -> Self {
        let entry = Entry::decode(raw.clone()).ok();
        let check = entry.as_ref().map(|entry| *entry.payload_check().as_bytes()).unwrap_or_default();
        Self { raw, entry, check }
    }

    pub(crate) fn id(&self) -> Option<&String> {
        self.entry.as_ref().map(|entry| &entry.event.request_id)
    }

    pub(crate) fn follows(&self, before: &Self) -> bool {
        self.entry.as_ref().zip(before.entry.as_ref()).is_some_and(|(this, before)| this.follows(before))
    }

    /// The picodollars that it charges a scope, if it started at `since` or later or does not say when.
    pub(crate) fn charge(&self, scope: &ScopeRef, since: Option<Millis>) -> i128 {
        let Some(event) = self.entry.as_ref().map(|entry| &entry.event) else { return 0 };
        let started = event.started_at.map(Millis::of);
        let current = since.zip(started).is_none_or(|(since, started)| started >= since);
        let paid = event.paid().filter(|_| current && event.scopes.contains(scope));
        paid.map(spend_queue::Usd::picos).unwrap_or_default()
    }
}

impl fmt::Debug for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.id() {
            Some(id) => f.write_str(id),
            None => write!(f, "{:?}", crate::request::text(&self.raw)),
        }
    }
}
