//! A queue's strict reads over a list of events, which can fail and remembers what it was asked.

use std::future::{Future, ready};
use std::sync::{Mutex, PoisonError};

use chrono::{DateTime, Utc};
use spend_queue::{PendingSpend, QueueError, ScopeRef, SpendEvent, Usd};

#[derive(Debug, Default)]
pub(crate) struct Hot {
    pub(crate) events: Vec<SpendEvent>,
    pub(crate) broken: bool,
    asked: Mutex<Vec<String>>,
}

#[derive(Debug, thiserror::Error)]
#[error("the queue does not answer")]
pub(crate) struct Silent;

impl QueueError for Silent {
    fn is_transient(&self) -> bool {
        true
    }
}

impl Hot {
    pub(crate) fn of(events: Vec<SpendEvent>) -> Self {
        Self { events, ..Self::default() }
    }

    pub(crate) fn broken() -> Self {
        Self { broken: true, ..Self::default() }
    }

    /// What was asked since the last look, sorted.
    pub(crate) fn asked(&self) -> Vec<String> {
        let mut asked = std::mem::take(&mut *self.asked.lock().unwrap_or_else(PoisonError::into_inner));
        asked.sort();
        asked
    }

    fn sum(&self, question: String, scope: &ScopeRef, since: Option<DateTime<Utc>>) -> Result<Usd, Silent> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(question);
        if self.broken {
            return Err(Silent);
        }
        let current = |event: &&SpendEvent| {
            event.scopes.contains(scope)
                && event.started_at.is_none_or(|start| since.is_none_or(|since| start >= since))
        };
        Ok(Usd::checked_sum(self.events.iter().filter(current).filter_map(|event| event.cost)).unwrap())
    }
}

impl PendingSpend for Hot {
    type Error = Silent;

    fn pending(&self, scope: &ScopeRef) -> impl Future<Output = Result<Usd, Silent>> + Send {
        ready(self.sum(format!("pending {scope}"), scope, None))
    }

    fn pending_since(
        &self,
        organization_id: &str,
        instant: DateTime<Utc>,
    ) -> impl Future<Output = Result<Usd, Silent>> + Send {
        let scope = ScopeRef::new("organization", organization_id).unwrap();
        ready(self.sum(
            format!("pending_since {organization_id} {}", instant.to_rfc3339()),
            &scope,
            Some(instant),
        ))
    }

    fn pending_key(&self, key_id: &str) -> impl Future<Output = Result<Usd, Silent>> + Send {
        ready(self.sum(format!("pending_key {key_id}"), &ScopeRef::new("key", key_id).unwrap(), None))
    }
}
