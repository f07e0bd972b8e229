//! What can go wrong, whether trying again can help, and whether a batch's own data is to blame.

mod cause;

use std::time::Duration;

use rate_plan::TreeError;
use spend_queue::EntryError;
use thiserror::Error;

use crate::{OverAllocation, ScopeKind};
pub use cause::Cause;
use cause::{READ_ONLY, UNAVAILABLE};

/// The step of a refused COMMIT.
const COMMITTING: &str = "committing";

/// A failed call to the ledger.
///
/// Every message is one line and holds neither a password nor any value that a row holds besides ids. Nothing is
/// hidden in `source()`: the message is complete.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// The connection URL is not one. No part of it is repeated, since a password may hide anywhere in a broken URL.
    #[error("database URL: {0}")]
    Url(String),
    /// The first connection failed: host, port, TLS, user, password or database.
    #[error("cannot connect to PostgreSQL at {target}: {cause}")]
    Connect {
        /// `host:port/database`.
        target: String,
        /// What the driver or the server said.
        cause: Cause,
    },
    /// The first connection was not up in time.
    #[error("cannot connect to PostgreSQL at {target}: no answer within {waited:?}")]
    ConnectTimedOut {
        /// `host:port/database`.
        target: String,
        /// The limit that passed.
        waited: Duration,
    },
    /// The server is too old.
    #[error("{target} runs PostgreSQL {}.{}; {} or newer is needed", found / 10_000, found % 10_000, crate::MIN_SERVER_VERSION / 10_000)]
    ServerTooOld {
        /// `host:port/database`.
        target: String,
        /// `server_version_num`, such as 130004.
        found: i32,
    },
    /// The server takes no writes: it is a standby, or a primary that was fenced with `default_transaction_read_only`. Nothing was
    /// written; and its budgets may be old, so none is told. It passes when the server is promoted, or the address points to
    /// the primary.
    #[error("{step}: the server is a standby, or read-only; it is asked again until it is a primary")]
    Standby {
        /// Which step.
        step: &'static str,
    },
    /// No connection of the pool became free in time: all are in use, or the server does not answer.
    #[error("no connection to {target} within {waited:?}; all are in use or the server does not answer")]
    Busy {
        /// `host:port/database`.
        target: String,
        /// The limit that passed.
        waited: Duration,
    },
    /// Migrations are missing.
    #[error("the database lacks migration {}; run `usage-flusher migrate` first", list(.0))]
    MigrationsPending(Vec<i64>),
    /// The database is newer than this program.
    #[error("the database has migration {}, newer than this program knows; upgrade the program", list(.0))]
    MigrationsNewer(Vec<i64>),
    /// A migration was changed after it had been applied, or was applied by half.
    #[error("migration {} in the database is not the one in this program; it was made by another build", list(.0))]
    MigrationsDiffer(Vec<i64>),
    /// A migration failed; it was rolled back.
    #[error("`usage-flusher migrate` failed: {0}")]
    Migrate(Cause),
    /// A statement failed; nothing of its transaction remains.
    #[error("{step}: {cause}")]
    Query {
        /// Which step.
        step: &'static str,
        /// What the driver or the server said.
        cause: Cause,
    },
    /// The connection broke while the server was committing, so the batch is there completely or not at all. Running
    /// the same batch again is safe and finds out.
    #[error("the outcome of COMMIT is unknown ({cause}); run the same batch again")]
    OutcomeUnknown {
        /// What broke.
        cause: Cause,
    },
    /// A settled request disappeared between two statements: somebody deletes from the ledger. Run the batch again.
    #[error("request {request_id:?} was settled and then deleted while a batch was committed")]
    Vanished {
        /// Whose row it was.
        request_id: String,
    },
    /// There is no such row.
    #[error("there is no {kind} {id:?}")]
    NotFound {
        /// What was looked for.
        kind: ScopeKind,
        /// Under which id.
        id: String,
    },
    /// An identity that cannot be.
    #[error("{kind} {id:?}: {problem}")]
    Identity {
        /// Its kind.
        kind: ScopeKind,
        /// Its id.
        id: String,
        /// What is wrong, with the bound.
        problem: String,
    },
    /// More would be allocated below a scope than it has.
    #[error("over-allocated: {0}")]
    OverAllocated(Box<OverAllocation>),
    /// PostgreSQL does not know a time zone; its message names it.
    #[error("{0}")]
    TimeZone(Cause),
    /// No key has this secret now, or it is none. Which of them is not said: whoever presents it shall not learn it.
    #[error("not authenticated")]
    NotAuthenticated,
    /// The key, or a scope above it, is blocked.
    #[error("{kind} {id:?} is blocked")]
    Blocked {
        /// The kind of the blocked scope.
        kind: ScopeKind,
        /// Its id.
        id: String,
    },
    /// The operating system gave no random bytes, so that no secret could be made.
    #[error("no random bytes from the operating system: {0}")]
    Entropy(String),
    /// A number does not fit the column that must hold it. A retry cannot help.
    #[error("{what} does not fit the ledger: {value}, at most {bound}")]
    OutOfRange {
        /// Which number.
        what: &'static str,
        /// Its value.
        value: String,
        /// The largest value that fits.
        bound: String,
    },
    /// A value has no binary form that its column could hold. A retry cannot help.
    #[error("a value cannot be written as {column_type}: {problem}")]
    Unwritable {
        /// The type of the column.
        column_type: String,
        /// What is wrong.
        problem: String,
    },
    /// An entry of the queue breaks a rule that the ledger keeps. A retry cannot help.
    #[error("the entry cannot be settled: {0}")]
    Unsettleable(EntryError),
    /// There is no such dead letter.
    #[error("there is no dead letter {id}")]
    NoDeadLetter {
        /// The number that was asked for.
        id: i64,
    },
    /// The stored rows are no rate tree.
    #[error("stored limits: {0}")]
    Tree(TreeError),
    /// A stored value that this program cannot have written.
    #[error("unreadable {column} in the ledger: {value:?}")]
    Unreadable {
        /// Which column.
        column: &'static str,
        /// What it holds.
        value: String,
    },
}

impl LedgerError {
    pub(crate) fn query(step: &'static str) -> impl FnOnce(sqlx::Error) -> Self {
        move |error| {
            let cause = Cause::new(error);
            if cause.sqlstate().as_deref() == Some(READ_ONLY) {
                Self::Standby { step }
            } else {
                Self::Query { step, cause }
            }
        }
    }

    /// What a failed COMMIT means. The server takes back only what it says it took back: conflicts (class 40) and
    /// deferred constraints (class 23). All else, a terminated session included, may come after the commit record.
    pub(crate) fn at_commit(error: sqlx::Error) -> Self {
        let cause = Cause::new(error);
        match cause.sqlstate() {
            Some(code) if code.starts_with("40") || code.starts_with("23") => {
                Self::Query { step: COMMITTING, cause }
            }
            _ => Self::OutcomeUnknown { cause },
        }
    }

    /// Whether the same call may succeed later without anybody mending anything.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Connect { cause, .. } => cause.is_transient() || cause.is_broken_handshake(),
            Self::Query { cause, .. } | Self::Migrate(cause) => cause.is_transient(),
            Self::ConnectTimedOut { .. }
            | Self::Standby { .. }
            | Self::Busy { .. }
            | Self::OutcomeUnknown { .. }
            | Self::Vanished { .. } => true,
            _ => false,
        }
    }

    /// Whether a part of the batch might be committed where the whole was refused: a value that PostgreSQL cannot
    /// store, or a sum that does not fit. Nothing was committed.
    #[must_use]
    pub fn blames_data(&self) -> bool {
        match self {
            Self::Query { cause, .. } => cause
                .sqlstate()
                .is_some_and(|code| ["22", "23", "54"].iter().any(|class| code.starts_with(class))),
            Self::OutOfRange { .. } | Self::Unwritable { .. } | Self::Unsettleable(_) => true,
            _ => false,
        }
    }

    /// Whether others were in the way: a serialization failure, a deadlock, a lock timeout. Nothing was committed, and
    /// the same transaction again may well succeed at once.
    pub(crate) fn is_conflict(&self) -> bool {
        matches!(self, Self::Query { .. })
            && self.sqlstate().is_some_and(|code| ["40001", "40P01", "55P03"].contains(&&*code))
    }

    /// Whether the server gave up for the time or the memory that the call took: a smaller batch may pass where this one never will.
    #[must_use]
    pub fn is_too_slow(&self) -> bool {
        self.sqlstate().is_some_and(|code| cause::TOO_SLOW.contains(&&*code))
    }

    /// Whether the server is not there for writes now, as while it starts, stops, or is promoted: what passes from one moment to the
    /// next. Ask again soon.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        match self {
            Self::Standby { .. } | Self::ConnectTimedOut { .. } | Self::Busy { .. } => true,
            Self::Connect { .. } => self.is_transient(),
            Self::Query { cause, .. } | Self::OutcomeUnknown { cause } => match cause.sqlstate() {
                Some(code) => code.starts_with("08") || UNAVAILABLE.contains(&&*code),
                None => cause.is_transient(),
            },
            _ => false,
        }
    }

    pub(crate) const fn is_outcome_unknown(&self) -> bool {
        matches!(self, Self::OutcomeUnknown { .. })
    }

    /// Whether COMMIT itself was refused.
    pub(crate) fn is_at_commit(&self) -> bool {
        matches!(self, Self::Query { step: COMMITTING, .. })
    }

    /// Whether the server itself refused a statement, so that the connection is sound.
    pub(crate) fn is_answer(&self) -> bool {
        match self {
            Self::Query { cause, .. } => cause.sqlstate().is_some(),
            Self::OutOfRange { .. }
            | Self::Unwritable { .. }
            | Self::Unsettleable(_)
            | Self::Vanished { .. }
            | Self::Unreadable { .. }
            | Self::OverAllocated(_)
            | Self::TimeZone(_)
            | Self::Identity { .. }
            | Self::NoDeadLetter { .. }
            | Self::NotFound { .. } => true,
            _ => false,
        }
    }

    /// The five-character SQLSTATE, when the server gave one.
    #[must_use]
    pub fn sqlstate(&self) -> Option<String> {
        match self {
            Self::Connect { cause, .. }
            | Self::Query { cause, .. }
            | Self::Migrate(cause)
            | Self::TimeZone(cause)
            | Self::OutcomeUnknown { cause } => cause.sqlstate(),
            Self::Standby { .. } => Some(READ_ONLY.to_owned()),
            _ => None,
        }
    }

    /// The class of the SQLSTATE, its first two characters, such as `08` for connections; `None` when the server gave none.
    #[must_use]
    pub fn sqlstate_class(&self) -> Option<String> {
        let mut code = self.sqlstate()?;
        code.truncate(code.char_indices().nth(2).map_or(code.len(), |(end, _)| end));
        Some(code)
    }

    /// The violated constraint, when the server named one.
    #[must_use]
    pub fn constraint(&self) -> Option<&str> {
        match self {
            Self::Query { cause, .. } | Self::Migrate(cause) => cause.constraint(),
            _ => None,
        }
    }
}

impl From<TreeError> for LedgerError {
    fn from(error: TreeError) -> Self {
        Self::Tree(error)
    }
}

fn list(versions: &[i64]) -> String {
    versions.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_breaks_during_commit_leaves_the_outcome_unknown() {
        let broken = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
        let error = LedgerError::at_commit(sqlx::Error::Io(broken));
        assert!(matches!(error, LedgerError::OutcomeUnknown { .. }));
        assert!(error.is_transient() && !error.blames_data());
    }
}
