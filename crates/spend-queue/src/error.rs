//! What can be wrong with an event or with an entry of the queue.

use chrono::{DateTime, Utc};
use thiserror::Error;

use crate::{MAX_DEPTH, MAX_EVENT_BYTES, MAX_SCOPES, MAX_TOKENS, ScopeRef, TextProblem};

/// A refused event: which field, and what is wrong with it. Nothing was written; a retry cannot help.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{field} {problem}")]
pub struct EventError {
    /// The field of [`crate::SpendEvent`].
    pub field: &'static str,
    /// What is wrong with it.
    pub problem: FieldProblem,
}

/// What is wrong with a field of an event, and the bound it breaks.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FieldProblem {
    /// An identifier or a name breaks the rule for texts.
    #[error("{0}")]
    Text(TextProblem),
    /// The event names no scope to charge.
    #[error("names no scope; at least one must be charged")]
    NoScope,
    /// The event names too many scopes.
    #[error("names {0} scopes, at most {MAX_SCOPES} are allowed")]
    TooManyScopes(usize),
    /// A scope would be charged twice.
    #[error("names {0} twice")]
    DuplicateScope(ScopeRef),
    /// A token count above the bound.
    #[error("is {0}, at most {MAX_TOKENS} is allowed")]
    TooMany(u64),
    /// A cost below zero.
    #[error("is negative")]
    Negative,
    /// A cost that one counter cannot hold.
    #[error("is above 9223372.036854775807 USD")]
    TooExpensive,
    /// A time more than a day ahead of the host's clock.
    #[error("is {given}, more than a day ahead of {now}")]
    InTheFuture {
        /// The event's time.
        given: DateTime<Utc>,
        /// The host's time.
        now: DateTime<Utc>,
    },
    /// A time that RFC 3339 cannot write, or from before 1970.
    #[error("is outside the years 1970 to 9999")]
    YearOutOfRange,
    /// A NUL character somewhere inside; PostgreSQL cannot store one.
    #[error("holds a NUL character")]
    Nul,
    /// Lists and objects inside one another beyond what every reader of JSON takes.
    #[error("has more than {MAX_DEPTH} lists and objects inside one another")]
    TooDeep,
    /// A name that the entry format uses itself.
    #[error("holds the reserved name {0:?}")]
    Reserved(String),
    /// The event's JSON is too large.
    #[error("takes {0} bytes, at most {MAX_EVENT_BYTES} are allowed")]
    TooLarge(usize),
    /// The event cannot be written as JSON.
    #[error("cannot be written as JSON: {0}")]
    Unwritable(String),
}

/// Why the bytes at some place of a queue are not an entry, or not one that can be settled ([`crate::Entry::problem`]).
///
/// Where they are not an entry the queue stops: such bytes may be somebody's bill, so nothing skips or drops them.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EntryError {
    /// The bytes do not start with a sequence number and a chain: no enqueue script wrote them.
    #[error("not a queue entry: it does not start with seq and chain")]
    Foreign,
    /// The entry was written by a newer release; upgrade the reader.
    #[error("entry format {0} is newer than this release understands; upgrade the flusher first")]
    NewerFormat(u64),
    /// The event inside is no valid JSON or lacks a field.
    #[error("unreadable event: {0}")]
    Json(String),
    /// The amount for people and the amount for programs differ, so one of them was changed by another hand.
    #[error("spend and spend_pusd are different amounts")]
    Amounts,
    /// The event inside breaks a bound.
    #[error("invalid event: {0}")]
    Event(#[from] EventError),
}
