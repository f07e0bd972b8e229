//! What could not be settled: kept whole, listed, and replayed when the cause is mended.

mod record;
mod replay;

use core::fmt;

use chrono::{DateTime, Utc};

use crate::{Ledger, LedgerError};
pub(crate) use record::record;
pub use replay::Replayed;

/// Why an entry is a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeadLetterKind {
    /// Its request id had been settled with another payload, which stays. It can never be replayed.
    Conflict,
    /// PostgreSQL did not accept it. It can be replayed when the cause is mended.
    Refused,
}

impl DeadLetterKind {
    /// The word that the table holds.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Conflict => "conflict",
            Self::Refused => "refused",
        }
    }
}

impl fmt::Display for DeadLetterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What the last replay of a letter did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayOutcome {
    /// The entry counts since then.
    Settled,
    /// The entry counted already.
    Duplicate,
    /// Another payload had been settled under the request id meanwhile.
    Conflict,
    /// PostgreSQL still refused it: the letter is still open.
    Refused,
}

impl ReplayOutcome {
    /// The word that the table holds.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Settled => "settled",
            Self::Duplicate => "duplicate",
            Self::Conflict => "conflict",
            Self::Refused => "refused",
        }
    }
}

impl fmt::Display for ReplayOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The last replay of a letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replay {
    /// When.
    pub at: DateTime<Utc>,
    /// What it did.
    pub outcome: ReplayOutcome,
}

/// An entry that was not settled, without its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// Its number, in the order of recording.
    pub id: i64,
    /// The shard of the queue that it came from.
    pub shard: u16,
    /// Its sequence number there, if it had one.
    pub seq: Option<u64>,
    /// Its request id, if a text column can hold it.
    pub request_id: Option<String>,
    /// Why it is one.
    pub kind: DeadLetterKind,
    /// What was wrong, on one line, with SQLSTATE and constraint where the server named them.
    pub reason: String,
    /// The length of the entry in bytes.
    pub bytes: u64,
    /// The committer's time at the commit of the batch.
    pub recorded_at: DateTime<Utc>,
    /// The last replay; `None` when there was none.
    pub replay: Option<Replay>,
}

impl DeadLetter {
    /// Whether somebody should still look at it: nobody replayed it, or it was refused again.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.replay.is_none_or(|replay| replay.outcome == ReplayOutcome::Refused)
    }
}

/// A dead letter with its entry.
#[derive(Clone, PartialEq, Eq)]
pub struct DeadLetterContent {
    /// What is known about it.
    pub letter: DeadLetter,
    /// The entry, byte for byte as the queue held it.
    pub raw: Vec<u8>,
}

impl fmt::Debug for DeadLetterContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the entry: it holds what a host keeps with its calls.
        f.debug_struct("DeadLetterContent").field("letter", &self.letter).finish_non_exhaustive()
    }
}

/// Which dead letters to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeadLetterPage {
    /// Letters with a greater number; 0 for the first page.
    pub after: i64,
    /// How many at most.
    pub limit: u32,
    /// Whether to leave out those that are done with ([`DeadLetter::is_open`]).
    pub open_only: bool,
}

impl Default for DeadLetterPage {
    fn default() -> Self {
        Self { after: 0, limit: 100, open_only: true }
    }
}

/// The columns of every query of letters.
struct Row {
    id: i64,
    shard: i32,
    seq: Option<i64>,
    request_id: Option<String>,
    kind: String,
    reason: String,
    bytes: i32,
    recorded_at: DateTime<Utc>,
    replayed_at: Option<DateTime<Utc>>,
    replay_outcome: Option<String>,
    /// Null in a list.
    raw: Option<Vec<u8>>,
}

impl Ledger {
    /// Dead letters in the order of their recording, a page at a time: the next page begins after the last id of this
    /// one.
    ///
    /// # Errors
    ///
    /// When the database cannot be read.
    pub async fn dead_letters(&self, page: DeadLetterPage) -> Result<Vec<DeadLetter>, LedgerError> {
        let rows = sqlx::query_file_as!(
            Row,
            "queries/dead_letters_page.sql",
            page.after,
            i64::from(page.limit),
            page.open_only
        )
        .fetch_all(&self.pool)
        .await
        .map_err(|error| self.failed("reading dead letters", error))?;
        rows.into_iter().map(DeadLetter::try_from).collect()
    }

    /// One dead letter with its entry.
    ///
    /// # Errors
    ///
    /// [`LedgerError::NoDeadLetter`], or when the database cannot be read.
    pub async fn dead_letter(&self, id: i64) -> Result<DeadLetterContent, LedgerError> {
        sqlx::query_file_as!(Row, "queries/dead_letter.sql", id)
            .fetch_optional(&self.pool)
            .await
            .map_err(|error| self.failed("reading a dead letter", error))?
            .ok_or(LedgerError::NoDeadLetter { id })?
            .try_into()
    }
}

impl TryFrom<Row> for DeadLetter {
    type Error = LedgerError;

    fn try_from(row: Row) -> Result<Self, LedgerError> {
        let unreadable = |column, value: String| LedgerError::Unreadable { column, value };
        let kinds = [DeadLetterKind::Conflict, DeadLetterKind::Refused];
        let kind = kinds.into_iter().find(|kind| kind.as_str() == row.kind);
        let replay = match (row.replayed_at, row.replay_outcome) {
            (Some(at), Some(word)) => {
                let outcomes = [
                    ReplayOutcome::Settled,
                    ReplayOutcome::Duplicate,
                    ReplayOutcome::Conflict,
                    ReplayOutcome::Refused,
                ];
                let outcome = outcomes.into_iter().find(|outcome| outcome.as_str() == word);
                Some(Replay { at, outcome: outcome.ok_or_else(|| unreadable("replay_outcome", word))? })
            }
            _ => None,
        };
        let seq = row.seq.map(|seq| u64::try_from(seq).map_err(|_| unreadable("seq", seq.to_string())));
        Ok(Self {
            id: row.id,
            shard: u16::try_from(row.shard).map_err(|_| unreadable("shard", row.shard.to_string()))?,
            seq: seq.transpose()?,
            request_id: row.request_id,
            kind: kind.ok_or_else(|| unreadable("kind", row.kind))?,
            reason: row.reason,
            bytes: u64::from(row.bytes.unsigned_abs()),
            recorded_at: row.recorded_at,
            replay,
        })
    }
}

impl TryFrom<Row> for DeadLetterContent {
    type Error = LedgerError;

    fn try_from(mut row: Row) -> Result<Self, LedgerError> {
        let raw = row.raw.take().unwrap_or_default();
        Ok(Self { letter: row.try_into()?, raw })
    }
}
