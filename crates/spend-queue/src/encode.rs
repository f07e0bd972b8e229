//! An event made ready for the queue: checked, digested, written.

use chrono::{DateTime, Utc};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::{
    Chain, ENTRY_FORMAT, EventError, FieldProblem, MAX_EVENT_BYTES, Millis, ScopeRef, SpendEvent, Start, Usd,
};

/// The first 16 bytes of a request id's SHA-256: what a queue remembers of an id for ever.
///
/// Ids come from callers, and a collision would swallow a bill, hence a cryptographic hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestDigest([u8; 16]);

/// The first 16 bytes of the SHA-256 of an event's JSON: tells a retry from another payload under the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PayloadCheck([u8; 16]);

/// What one scope owes for a number of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Charge {
    /// The money, at most `i64::MAX` picodollars.
    pub amount: Usd,
    /// How many events with a cost above zero it is the sum of.
    pub paid_events: u64,
}

/// An event that passed every check, in the bytes that the queue will hold.
///
/// The only thing that a queue accepts, so no unchecked event can get into one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedEvent {
    request_id: String,
    partition: String,
    scopes: Vec<ScopeRef>,
    paid: Option<i64>,
    started: Option<Millis>,
    encoded: Millis,
    body: String,
}

impl RequestDigest {
    /// The digest of a request id.
    #[must_use]
    pub fn of(request_id: &str) -> Self {
        Self(first_half(request_id.as_bytes()))
    }

    /// The 16 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl PayloadCheck {
    pub(crate) fn of(body: impl AsRef<[u8]>) -> Self {
        Self(first_half(body.as_ref()))
    }

    /// The 16 bytes, as the ledger keeps them.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// The first 4 bytes, as the hot queue keeps them: another payload passes for a retry once in 2^32 times,
    /// and then the ledger still notices.
    #[must_use]
    pub fn short(&self) -> [u8; 4] {
        let [a, b, c, d, ..] = self.0;
        [a, b, c, d]
    }
}

fn first_half(bytes: &[u8]) -> [u8; 16] {
    let hash = Sha256::digest(bytes);
    core::array::from_fn(|index| hash[index])
}

impl SpendEvent {
    /// Checks the event and writes it in entry format 2.
    ///
    /// The same event always gives the same body, so a retry is recognised as one. `now` goes into the entry beside the
    /// body, so that the age of what is queued can be told.
    ///
    /// # Errors
    ///
    /// An [`EventError`] that names the field, what is wrong and the bound; a retry cannot help.
    pub fn encode(&self, now: DateTime<Utc>) -> Result<EncodedEvent, EventError> {
        /// `format` leads, so that a reader can tell a newer entry before it trips over its fields.
        #[derive(Serialize)]
        struct Body<'a> {
            format: u64,
            #[serde(skip_serializing_if = "Option::is_none")]
            spend: Option<Usd>,
            #[serde(flatten)]
            event: &'a SpendEvent,
        }

        self.validate()?;
        self.validate_clock(now)?;
        let json =
            serde_json::to_string(&Body { format: ENTRY_FORMAT, spend: self.cost, event: self }).map_err(
                |error| EventError { field: "event", problem: FieldProblem::Unwritable(error.to_string()) },
            )?;
        if json.len() > MAX_EVENT_BYTES {
            return Err(EventError { field: "event", problem: FieldProblem::TooLarge(json.len()) });
        }
        Ok(EncodedEvent {
            request_id: self.request_id.clone(),
            partition: self.partition().to_string(),
            scopes: self.scopes.clone(),
            paid: self.paid().and_then(|cost| cost.counter().ok()),
            started: self.started_at.map(Millis::of),
            encoded: Millis::of(now),
            // Without the opening brace: sequence number and chain go before it.
            body: json[1..].to_owned(),
        })
    }
}

impl EncodedEvent {
    /// The idempotency key.
    #[must_use]
    pub fn request_id(&self) -> &str {
        &self.request_id
    }

    /// What the queue remembers of the idempotency key.
    #[must_use]
    pub fn digest(&self) -> RequestDigest {
        RequestDigest::of(&self.request_id)
    }

    /// What tells a retry from a conflict.
    #[must_use]
    pub fn payload_check(&self) -> PayloadCheck {
        PayloadCheck::of(&self.body)
    }

    /// The text of the billing root's scope ref, which decides the shard.
    #[must_use]
    pub fn partition(&self) -> &str {
        &self.partition
    }

    /// The scopes to charge and the picodollars of each; empty when the event is free or unpriced.
    pub fn charges(&self) -> impl Iterator<Item = (&ScopeRef, i64)> {
        self.paid.into_iter().flat_map(|picos| self.scopes.iter().map(move |scope| (scope, picos)))
    }

    /// The places of the time index that the event's money belongs to: none when it is free, unpriced, charges no
    /// organization, or does not say when it started.
    pub fn starts(&self) -> impl Iterator<Item = Start> {
        let at = self.paid.and(self.started);
        at.into_iter().flat_map(|at| self.scopes.iter().filter_map(move |scope| Start::of(scope, at)))
    }

    /// When the event was encoded, by the clock of the host that did it: the time from which its age in the queue counts,
    /// in a spool before the queue included.
    #[must_use]
    pub const fn encoded(&self) -> Millis {
        self.encoded
    }

    /// The event's JSON without its opening brace: what a queue puts behind sequence number, chain and time.
    #[must_use]
    pub fn body(&self) -> &str {
        &self.body
    }

    /// The link of the entry behind this one.
    #[must_use]
    pub fn chain_after(&self, before: Chain, seq: u64) -> Chain {
        before.next(seq, self.encoded, &self.body)
    }

    /// The whole entry in its place of the chain.
    #[must_use]
    pub fn entry(&self, seq: u64, chain: Chain) -> String {
        format!("{{\"seq\":{seq},\"chain\":\"{chain}\",\"queued\":{},{}", self.encoded, self.body)
    }
}
