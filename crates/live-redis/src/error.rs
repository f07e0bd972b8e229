//! What can go wrong with Redis, and whether trying again helps.

use std::fmt;
use std::time::Duration;

use rate_plan::{TreeError, UsageError};
use redis::{ErrorKind, RedisError, ServerErrorKind};
use spend_queue::{EventError, QueueError};
use thiserror::Error;

use crate::admission::SettleRefusal;
use crate::input::InputError;

/// The step at which opening failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Reading the URL.
    Parse,
    /// Reaching the server and logging in.
    Connect,
    /// The first command.
    Ping,
    /// Comparing the options with what the deployment was set up with.
    Options,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Parse => "reading the Redis URL",
            Self::Connect => "connecting to Redis",
            Self::Ping => "pinging Redis",
            Self::Options => "checking the options",
        })
    }
}

/// Redis could not be opened. Nothing stays open; the text has no part of the URL.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{step} failed: {reason}")]
pub struct OpenError {
    /// The step that failed.
    pub step: Step,
    reason: String,
}

impl OpenError {
    pub(crate) fn new(step: Step, reason: impl Into<String>) -> Self {
        Self { step, reason: reason.into() }
    }
}

/// Why one call got no answer from Redis, or a bad one.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CallError {
    /// The client was closed.
    #[error("the Redis client is closed")]
    Closed,
    /// No answer in time. The call may have run.
    #[error("no answer from Redis within {0:?}; the call may have run")]
    Timeout(Duration),
    /// The connection could not be made or broke. The call may have run; the connection mends itself.
    #[error("connection to Redis: {0}")]
    Connection(String),
    /// The server refused for a reason that passes or that an operator can mend (`OOM`, `READONLY`,
    /// `LOADING`, `BUSY`, `MISCONF`, ...). Nothing was written.
    #[error("Redis refuses for now: {0}")]
    Unavailable(String),
    /// The server refused for a reason that stays (a wrong type, missing rights, an unknown command).
    /// Nothing was written.
    #[error("Redis refuses: {0}")]
    Refused(String),
    /// The answer does not have the form that the script gives.
    #[error("unexpected answer from Redis: {0}")]
    Answer(String),
    /// A defect of this client: the code that made the call for several that waited together panicked. The call may have run.
    /// Among several, one of the others has most likely caused it, and a retry in other company may succeed; alone, the
    /// same input will fail again.
    #[error("a defect of the Redis client ended a call for {asks} callers; the call may have run")]
    Panicked {
        /// How many waited for the call.
        asks: usize,
    },
}

/// Why a call of [`crate::LiveRedis`] failed. Nothing was written unless the variant says otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LiveRedisError {
    /// The host runs without Redis ([`crate::LiveRedis::disabled`]), and the call needs one.
    #[error("Redis is not configured, and this call needs it")]
    NotConfigured,
    /// The call did not get through, or got no usable answer.
    #[error(transparent)]
    Call(#[from] CallError),
    /// A key holds what no script of this crate writes; the text names it. An operator must look.
    #[error("damaged hot state: {0}")]
    Damaged(String),
    /// A counter would pass its bound; the text names it. Acknowledging (spend) or the next minute (rates) helps.
    #[error("counter bound reached: {0}")]
    CounterFull(String),
    /// Pending spend cannot be told exactly: the index is in doubt and the queue too long to go through, an organization has more
    /// starts before an instant than [`crate::Options::since_bound`], or an entry of an older deployment does not say which key it
    /// charges. Draining or repairing the queue helps.
    #[error("pending spend is not known: {0}")]
    Unproven(String),
    /// The queue was set up with another shard count.
    #[error("shard count differs: {0}")]
    ShardCount(String),
    /// An argument is out of bounds. Nothing was sent.
    #[error("input refused: {0}")]
    Input(#[from] InputError),
    /// The event was refused.
    #[error("event refused: {0}")]
    Event(#[from] EventError),
    /// The scopes do not make a plan.
    #[error("rate plan refused: {0}")]
    Plan(#[from] TreeError),
    /// The estimate is out of bounds, or a shared counter is full for this minute.
    #[error("request refused: {0}")]
    Usage(#[from] UsageError),
    /// The ticket cannot be settled or refunded.
    #[error("{0}")]
    Settle(#[from] SettleRefusal),
}

impl LiveRedisError {
    /// A short name of the kind of error, for metrics.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::NotConfigured => "not_configured",
            Self::Call(CallError::Closed) => "closed",
            Self::Call(CallError::Timeout(_)) => "timeout",
            Self::Call(CallError::Connection(_)) => "connection",
            Self::Call(CallError::Unavailable(_)) => "unavailable",
            Self::Call(CallError::Refused(_)) => "refused",
            Self::Call(CallError::Answer(_)) => "answer",
            Self::Call(CallError::Panicked { .. }) => "panicked",
            Self::Damaged(_) => "damaged",
            Self::Unproven(_) => "unproven",
            Self::CounterFull(_) => "counter_full",
            Self::ShardCount(_) => "shard_count",
            Self::Input(_) | Self::Event(_) | Self::Plan(_) | Self::Usage(_) => "input",
            Self::Settle(_) => "ticket",
        }
    }
}

impl QueueError for LiveRedisError {
    fn is_transient(&self) -> bool {
        match self {
            Self::Call(CallError::Timeout(_) | CallError::Connection(_) | CallError::Unavailable(_)) => true,
            Self::Call(CallError::Panicked { asks }) => *asks > 1,
            Self::CounterFull(_) | Self::Unproven(_) | Self::Usage(UsageError::CounterFull { .. }) => true,
            Self::NotConfigured
            | Self::Call(_)
            | Self::Damaged(_)
            | Self::ShardCount(_)
            | Self::Input(_)
            | Self::Event(_)
            | Self::Plan(_)
            | Self::Usage(_)
            | Self::Settle(_) => false,
        }
    }

    fn is_of_one_event(&self) -> bool {
        matches!(self, Self::CounterFull(_))
    }
}

impl From<RedisError> for LiveRedisError {
    fn from(error: RedisError) -> Self {
        let detail = error.detail().unwrap_or_default().to_owned();
        match error.code() {
            Some("DAMAGED") => Self::Damaged(detail),
            Some("UNPROVEN" | "UNNAMED") => Self::Unproven(detail),
            Some("FULL") => Self::CounterFull(detail),
            Some("SHARDS") => Self::ShardCount(detail),
            _ => Self::Call(CallError::from(error)),
        }
    }
}

impl From<RedisError> for CallError {
    fn from(error: RedisError) -> Self {
        let text = one_line(&error);
        match error.kind() {
            // A refusal without a word of its own, which passes when others leave.
            _ if text.contains("max number of clients reached") => Self::Unavailable(text),
            // A cluster of which no node is connected: nothing was sent.
            ErrorKind::Io | ErrorKind::ClusterConnectionNotFound => Self::Connection(text),
            ErrorKind::Server(
                ServerErrorKind::BusyLoading
                | ServerErrorKind::ClusterDown
                | ServerErrorKind::MasterDown
                | ServerErrorKind::Moved
                | ServerErrorKind::Ask
                | ServerErrorKind::ReadOnly
                | ServerErrorKind::TryAgain,
            ) => Self::Unavailable(text),
            ErrorKind::Extension => match error.code() {
                Some("OOM" | "MISCONF" | "NOREPLICAS" | "BUSY" | "UNBLOCKED") => Self::Unavailable(text),
                _ => Self::Refused(text),
            },
            ErrorKind::UnexpectedReturnType | ErrorKind::Parse => Self::Answer(text),
            _ if error.is_io_error() || error.is_timeout() => Self::Connection(text),
            _ => Self::Refused(text),
        }
    }
}

/// What the server or the socket said, on one line; the server's own word first.
pub(crate) fn one_line(error: &RedisError) -> String {
    let text = match (error.code(), error.detail()) {
        (Some(word), detail) => format!("{word} {}", detail.unwrap_or_default()),
        (None, _) => error.to_string(),
    };
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_full_of_clients_cannot_now() {
        let error =
            redis::make_extension_error("ERR".to_owned(), Some("max number of clients reached".to_owned()));
        assert!(matches!(CallError::from(error), CallError::Unavailable(_)));
    }
}
