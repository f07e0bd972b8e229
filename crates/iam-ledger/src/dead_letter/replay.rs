//! Trying a dead letter again.

use chrono::{DateTime, Utc};
use spend_queue::{Entry, Shard, Usd};
use sqlx::{Connection, Executor, PgConnection};

use super::record::{record, refusal};
use super::{DeadLetter, DeadLetterContent, DeadLetterKind, Replay, ReplayOutcome, Row};
use crate::commit::{Patience, Settled, Times, settle};
use crate::lease::BEGIN;
use crate::{Ledger, LedgerError};

/// What a replay did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Replayed {
    /// The entry counts now.
    Settled {
        /// What it costs.
        cost: Usd,
    },
    /// The entry counted already; nothing but the mark changed.
    Duplicate,
    /// Another payload was settled under the request id meanwhile, and stays. The entry is now also a letter of the kind
    /// [`DeadLetterKind::Conflict`].
    Conflict,
    /// PostgreSQL still refuses it; the letter stays open.
    Refused {
        /// What it says now.
        reason: String,
    },
    /// A letter of the kind [`DeadLetterKind::Conflict`]: its request id names another call that is settled, so it can
    /// never count under this id. Nothing changed.
    NotReplayable,
    /// An earlier replay is final. Nothing changed.
    AlreadyDone(Replay),
    /// What was given in place of the entry names another request. Nothing changed.
    OtherRequest {
        /// The letter's.
        letter: String,
        /// The one that was given.
        given: String,
    },
    /// The bytes are no entry that this release can settle. Nothing changed.
    Unreadable {
        /// Why.
        problem: String,
    },
}

impl Ledger {
    /// Tries a refused letter again and marks it with the outcome, in one transaction: afterwards it counts and is
    /// marked, or neither. An event without any time counts as of the time when it was first refused, so that a late
    /// replay does not move it into another period.
    ///
    /// # Idempotence
    ///
    /// As of [`Ledger::commit`]; two operators who replay one letter at once take turns. It is repeated on lock
    /// conflicts and after a COMMIT without an answer, as a commit is; what an unanswered COMMIT had done is then
    /// reported as [`Replayed::AlreadyDone`].
    ///
    /// # Errors
    ///
    /// [`LedgerError::NoDeadLetter`]; otherwise as [`Ledger::commit`], with nothing changed.
    pub async fn replay(&self, id: i64, now: DateTime<Utc>) -> Result<Replayed, LedgerError> {
        self.replay_as(id, None, now).await
    }

    /// [`Ledger::replay`] of a letter whose own value can never be settled: `corrected` is settled in its place, an entry in the
    /// same form and with the same request id. The letter keeps the entry that was refused.
    ///
    /// # Errors
    ///
    /// As [`Ledger::replay`].
    pub async fn replay_corrected(
        &self,
        id: i64,
        corrected: &[u8],
        now: DateTime<Utc>,
    ) -> Result<Replayed, LedgerError> {
        self.replay_as(id, Some(corrected), now).await
    }

    async fn replay_as(
        &self,
        id: i64,
        corrected: Option<&[u8]>,
        now: DateTime<Utc>,
    ) -> Result<Replayed, LedgerError> {
        let mut patience = Patience::new();
        loop {
            match self.replay_once(id, corrected, now).await {
                Ok(replayed) => return Ok(replayed),
                Err(error) => tokio::time::sleep(patience.after(error)?).await,
            }
        }
    }

    async fn replay_once(
        &self,
        id: i64,
        corrected: Option<&[u8]>,
        now: DateTime<Utc>,
    ) -> Result<Replayed, LedgerError> {
        let mut lease = self.lease().await?;
        let mut transaction = lease
            .connection()
            .begin_with(BEGIN)
            .await
            .map_err(LedgerError::query("beginning a transaction"))?;
        match Box::pin(replay_in(&mut transaction, id, corrected, now)).await {
            Ok(replayed) => {
                transaction.commit().await.map_err(LedgerError::at_commit)?;
                lease.keep();
                Ok(replayed)
            }
            Err(error) => {
                if error.is_answer() && transaction.rollback().await.is_ok() {
                    lease.keep();
                }
                Err(error)
            }
        }
    }
}

async fn replay_in(
    connection: &mut PgConnection,
    id: i64,
    corrected: Option<&[u8]>,
    now: DateTime<Utc>,
) -> Result<Replayed, LedgerError> {
    let row = sqlx::query_file_as!(Row, "queries/lock_dead_letter.sql", id)
        .fetch_optional(&mut *connection)
        .await
        .map_err(LedgerError::query("taking a dead letter"))?;
    let DeadLetterContent { letter, raw } = row.ok_or(LedgerError::NoDeadLetter { id })?.try_into()?;
    if letter.kind == DeadLetterKind::Conflict {
        return Ok(Replayed::NotReplayable);
    }
    if let Some(replay) = letter.replay.filter(|_| !letter.is_open()) {
        return Ok(Replayed::AlreadyDone(replay));
    }
    let decode = if letter.shard == Shard::OLDER.index() { Entry::decode_older } else { Entry::decode };
    let given = corrected.map_or(raw, <[u8]>::to_vec);
    let entry = match decode(given) {
        Ok(entry) => entry,
        Err(error) => return Ok(Replayed::Unreadable { problem: error.to_string() }),
    };
    // A letter without an id had one that no column can hold: any other is right for it.
    if let Some(request_id) = letter.request_id.as_ref().filter(|id| **id != *entry.event.request_id) {
        return Ok(Replayed::OtherRequest {
            letter: request_id.clone(),
            given: entry.event.request_id.clone(),
        });
    }
    if let Some(problem) = entry.problem() {
        return Ok(Replayed::Unreadable { problem: problem.to_string() });
    }
    let (replayed, outcome) = settle_letter(connection, &letter, &entry, now).await?;
    sqlx::query_file!("queries/mark_replayed.sql", id, now, outcome.as_str())
        .execute(connection)
        .await
        .map_err(LedgerError::query("marking a dead letter"))?;
    Ok(replayed)
}

async fn settle_letter(
    connection: &mut PgConnection,
    letter: &DeadLetter,
    entry: &Entry,
    now: DateTime<Utc>,
) -> Result<(Replayed, ReplayOutcome), LedgerError> {
    run(connection, "savepoint letter").await?;
    let times = Times::again(now, letter.recorded_at);
    let settled = match settle(connection, &[entry], times).await {
        Ok(settled) => settled,
        Err(error) if error.blames_data() => {
            run(connection, "rollback to savepoint letter").await?;
            return Ok((Replayed::Refused { reason: refusal(&error) }, ReplayOutcome::Refused));
        }
        Err(error) => return Err(error),
    };
    record(connection, letter.shard.into(), &settled, times.settled_at).await?;
    Ok(match settled {
        Settled { new: 1.., cost, .. } => (Replayed::Settled { cost }, ReplayOutcome::Settled),
        Settled { duplicates: 1.., .. } => (Replayed::Duplicate, ReplayOutcome::Duplicate),
        _ => (Replayed::Conflict, ReplayOutcome::Conflict),
    })
}

async fn run(connection: &mut PgConnection, statement: &'static str) -> Result<(), LedgerError> {
    connection.execute(statement).await.map_err(LedgerError::query("replaying a dead letter")).map(drop)
}
