//! Ending holds: by release, by time, by the commit of the request's event.

use chrono::{DateTime, Utc};
use spend_queue::Entry;
use sqlx::PgConnection;

use super::place::{check_now, check_request_id};
use super::{Hold, HoldError, HoldState};
use crate::money::to_picos;
use crate::{Ledger, LedgerError};

/// What a release found. All are answers, none is a fault: after each, the request reserves nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Released {
    /// It reserved money and does no longer.
    Now,
    /// It was released before.
    AlreadyReleased(Hold),
    /// The request's event was committed before.
    AlreadySettled(Hold),
    /// Its time had passed.
    AlreadyExpired(Hold),
    /// The request never held anything: its hold was refused, or its outcome was unknown and nothing came of it.
    NeverHeld,
}

impl Ledger {
    /// Gives a hold's money back: the request did not run, or costs nothing. A single statement; repeating it is safe.
    ///
    /// # Errors
    ///
    /// [`HoldError::RequestId`] and [`HoldError::Now`], or [`HoldError::Ledger`] when the database failed.
    pub async fn release(&self, request_id: &str, now: DateTime<Utc>) -> Result<Released, HoldError> {
        check_request_id(request_id).map_err(HoldError::RequestId)?;
        let now = check_now(now)?;
        let ended = sqlx::query_file!("queries/release_hold.sql", request_id, now)
            .fetch_optional(&self.pool)
            .await
            .map_err(|error| self.failed("releasing a hold", error))?;
        if ended.is_some_and(|row| row.state == HoldState::Released.as_str()) {
            return Ok(Released::Now);
        }
        Ok(match self.hold_of(request_id).await? {
            None => Released::NeverHeld,
            Some(hold) => match hold.state {
                HoldState::Released => Released::AlreadyReleased(hold),
                HoldState::Settled => Released::AlreadySettled(hold),
                // `Held` only if it was made after this call had looked.
                HoldState::Expired | HoldState::Held => Released::AlreadyExpired(hold),
            },
        })
    }

    /// Writes down which holds have expired, oldest first, at most `limit` (1 or more); returns how many. They reserve nothing
    /// since their time passed, so this only keeps the table of reservations small. Any number of callers may sweep at once; call
    /// again while it returns `limit`.
    ///
    /// # Errors
    ///
    /// When the database failed.
    pub async fn expire_holds(&self, now: DateTime<Utc>, limit: u32) -> Result<u64, LedgerError> {
        let row = sqlx::query_file!("queries/expire_holds.sql", now, i64::from(limit.max(1)))
            .fetch_one(&self.pool)
            .await
            .map_err(|error| self.failed("sweeping expired holds", error))?;
        Ok(row.expired.unsigned_abs())
    }
}

/// Ends the holds of entries that are committed now for the first time, in the transaction that commits them: at no moment is a
/// request both held and settled, or neither. What each cost is recorded beside what was held.
pub(crate) async fn settle(
    connection: &mut PgConnection,
    fresh: &[&Entry],
    at: DateTime<Utc>,
) -> Result<(), LedgerError> {
    let ids: Vec<&str> = fresh.iter().map(|entry| &*entry.event.request_id).collect();
    let costs = fresh.iter().map(|entry| entry.event.cost.map(to_picos).transpose());
    let costs = costs.collect::<Result<Vec<Option<i64>>, _>>()?;
    sqlx::query_file!("queries/settle_holds.sql", &ids as &[&str], &costs as &[Option<i64>], at)
        .execute(connection)
        .await
        .map_err(LedgerError::query("settling holds"))?;
    Ok(())
}
