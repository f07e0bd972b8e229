//! What a run did, kept apart from what Redis and the ledger say about it, in memory that does not grow with it.

use std::collections::BTreeMap;
use std::fmt;

use chrono::NaiveDate;
use spend_queue::{ScopeRef, SpendEvent, Usd};
use xxhash_rust::xxh3::Xxh3;

/// A day's use of one model by one organization.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DayModel {
    /// The UTC day on which the calls started.
    pub day: NaiveDate,
    /// The organization's id.
    pub organization: String,
    /// The model's name.
    pub model: String,
}

/// Events and what they cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spend {
    /// How many events.
    pub events: u64,
    /// How many of them have no price.
    pub unpriced: u64,
    /// Input tokens.
    pub prompt_tokens: u64,
    /// Output tokens.
    pub completion_tokens: u64,
    /// The sum of what is priced.
    pub cost: Usd,
}

/// What one scope was charged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Charged {
    /// How many events with a cost above zero.
    pub paid_events: u64,
    /// Their sum.
    pub cost: Usd,
}

/// A digest of a set of events that does not depend on their order: the wrapping sum of one 128-bit hash each.
///
/// Two sets with the same digest are the same but for an accident of 1 in 2^128. It is no protection against
/// somebody who looks for a collision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fingerprint {
    /// How many events are in it.
    pub events: u64,
    sum: u128,
}

/// Why a journal cannot be kept. No trace within the bounds of [`crate::trace`] gets there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the sum of all costs does not fit 128 bits")]
pub struct SumOverflow;

/// Everything that a run expects to find in the ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Journal {
    /// By day, organization and model.
    pub days: BTreeMap<DayModel, Spend>,
    /// By scope. Only scopes that were charged something.
    pub scopes: BTreeMap<ScopeRef, Charged>,
    /// All events.
    pub fingerprint: Fingerprint,
}

/// The part of an event that its fingerprint covers.
#[derive(Clone, Copy, Debug)]
pub struct Fingerprinted<'e> {
    /// The request's id.
    pub request_id: &'e str,
    /// What it cost, if it is priced.
    pub cost: Option<Usd>,
    /// Input tokens.
    pub prompt_tokens: u64,
    /// Output tokens.
    pub completion_tokens: u64,
    /// The scopes charged, in the event's order.
    pub scopes: &'e [ScopeRef],
}

impl<'e> From<&'e SpendEvent> for Fingerprinted<'e> {
    fn from(event: &'e SpendEvent) -> Self {
        Self {
            request_id: &event.request_id,
            cost: event.cost,
            prompt_tokens: event.prompt_tokens,
            completion_tokens: event.completion_tokens,
            scopes: &event.scopes,
        }
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x} of {} events", self.sum, self.events)
    }
}

impl Fingerprint {
    /// Adds one event.
    pub fn add(&mut self, event: Fingerprinted<'_>) {
        let mut hash = Xxh3::new();
        // Lengths go first, so that no two different events write the same bytes.
        let mut text = |text: &str| {
            hash.update(&(text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        };
        text(event.request_id);
        for scope in event.scopes {
            text(scope.kind());
            text(scope.id());
        }
        hash.update(&[u8::from(event.cost.is_some())]);
        hash.update(&event.cost.unwrap_or_default().picos().to_le_bytes());
        hash.update(&event.prompt_tokens.to_le_bytes());
        hash.update(&event.completion_tokens.to_le_bytes());
        self.sum = self.sum.wrapping_add(hash.digest128());
        self.events += 1;
    }

    /// Adds the events of another set.
    pub fn merge(&mut self, other: Self) {
        self.sum = self.sum.wrapping_add(other.sum);
        self.events += other.events;
    }
}

impl Journal {
    /// Notes an event that the queue accepted. `organization` and `day` are those that the ledger must book it under.
    ///
    /// # Errors
    ///
    /// [`SumOverflow`].
    pub fn note(
        &mut self,
        organization: &str,
        day: NaiveDate,
        event: &SpendEvent,
    ) -> Result<(), SumOverflow> {
        self.fingerprint.add(event.into());
        let key = DayModel { day, organization: organization.to_owned(), model: event.model.clone() };
        self.days.entry(key).or_default().add(Spend {
            events: 1,
            unpriced: u64::from(event.cost.is_none()),
            prompt_tokens: event.prompt_tokens,
            completion_tokens: event.completion_tokens,
            cost: event.cost.unwrap_or_default(),
        })?;
        if let Some(cost) = event.paid() {
            for scope in &event.scopes {
                self.scopes.entry(scope.clone()).or_default().add(Charged { paid_events: 1, cost })?;
            }
        }
        Ok(())
    }

    /// Adds what another part of the run noted.
    ///
    /// # Errors
    ///
    /// [`SumOverflow`].
    pub fn merge(&mut self, other: Self) -> Result<(), SumOverflow> {
        self.fingerprint.merge(other.fingerprint);
        for (key, spend) in other.days {
            self.days.entry(key).or_default().add(spend)?;
        }
        for (scope, charged) in other.scopes {
            self.scopes.entry(scope).or_default().add(charged)?;
        }
        Ok(())
    }

    /// All events of the run.
    ///
    /// # Errors
    ///
    /// [`SumOverflow`].
    pub fn total(&self) -> Result<Spend, SumOverflow> {
        let mut total = Spend::default();
        self.days.values().try_for_each(|spend| total.add(*spend))?;
        Ok(total)
    }
}

impl Spend {
    /// Adds another sum.
    ///
    /// # Errors
    ///
    /// [`SumOverflow`].
    pub fn add(&mut self, other: Self) -> Result<(), SumOverflow> {
        self.events += other.events;
        self.unpriced += other.unpriced;
        self.prompt_tokens += other.prompt_tokens;
        self.completion_tokens += other.completion_tokens;
        self.cost = self.cost.checked_add(other.cost).ok_or(SumOverflow)?;
        Ok(())
    }
}

impl Charged {
    /// Adds another sum.
    ///
    /// # Errors
    ///
    /// [`SumOverflow`].
    pub fn add(&mut self, other: Self) -> Result<(), SumOverflow> {
        self.paid_events += other.paid_events;
        self.cost = self.cost.checked_add(other.cost).ok_or(SumOverflow)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(n: u64, cost: Option<i128>) -> SpendEvent {
        let scopes = vec![ScopeRef::new("key", "k").unwrap(), ScopeRef::new("organization", "o").unwrap()];
        let mut event = SpendEvent::new(format!("r{n}"), format!("m{}", n % 2), scopes);
        event.cost = cost.map(Usd::from_picos);
        event.prompt_tokens = n;
        event
    }

    fn fingerprint<'e>(events: impl Iterator<Item = &'e SpendEvent>) -> Fingerprint {
        let mut fingerprint = Fingerprint::default();
        events.for_each(|event| fingerprint.add(event.into()));
        fingerprint
    }

    #[test]
    fn the_order_of_events_does_not_matter() {
        let events: Vec<SpendEvent> = (0..100).map(|n| event(n, Some(n.into()))).collect();
        let whole = fingerprint(events.iter());
        assert_eq!(whole, fingerprint(events.iter().rev()));
        let mut parts = fingerprint(events[60..].iter());
        parts.merge(fingerprint(events[..60].iter()));
        assert_eq!(whole, parts);
    }

    #[test]
    fn a_missing_repeated_or_altered_event_is_noticed() {
        let events: Vec<SpendEvent> = (0..10).map(|n| event(n, Some(5))).collect();
        let whole = fingerprint(events.iter());
        assert_ne!(whole, fingerprint(events[1..].iter()));
        assert_ne!(whole.sum, fingerprint(events.iter().chain(&events[..1])).sum);
        let altered: [fn(&mut SpendEvent); 7] = [
            |event| event.request_id.push('x'),
            |event| event.cost = None,
            |event| event.cost = Some(Usd::from_picos(6)),
            |event| event.prompt_tokens += 1,
            |event| event.completion_tokens += 1,
            |event| event.scopes.truncate(1),
            |event| event.scopes[0] = ScopeRef::new("ke", "yk").unwrap(),
        ];
        for (n, alter) in altered.into_iter().enumerate() {
            let mut events = events.clone();
            alter(&mut events[3]);
            assert_ne!(whole, fingerprint(events.iter()), "alteration {n}");
        }
    }

    #[test]
    fn an_unpriced_event_is_not_a_free_one() {
        assert_ne!(fingerprint([event(1, None)].iter()), fingerprint([event(1, Some(0))].iter()));
    }

    #[test]
    fn parts_of_a_journal_add_up_to_the_whole() {
        let day = NaiveDate::from_ymd_opt(2025, 6, 1).unwrap();
        let events = [event(1, Some(7)), event(2, None), event(3, Some(0)), event(4, Some(9))];
        let journal = |events: &[SpendEvent]| {
            let mut journal = Journal::default();
            events.iter().for_each(|event| journal.note("o", day, event).unwrap());
            journal
        };
        let mut parts = journal(&events[2..]);
        parts.merge(journal(&events[..2])).unwrap();
        assert_eq!(parts, journal(&events));
        let total = parts.total().unwrap();
        assert_eq!((total.events, total.unpriced, total.cost.picos()), (4, 1, 16));
        assert_eq!(parts.scopes.len(), 2);
        assert!(parts.scopes.values().all(|charged| charged.paid_events == 2 && charged.cost.picos() == 16));
    }
}
