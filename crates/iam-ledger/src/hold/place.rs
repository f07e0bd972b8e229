//! Making a hold.

use std::time::Duration;

use chrono::{DateTime, Datelike, TimeDelta, Utc};
use spend_queue::{ScopeRef, ScopeRefError, TextProblem, Usd};
use sqlx::{Connection, PgConnection};

use super::{Hold, HoldError, HoldState, MAX_HOLD, MAX_HOLD_TTL, MIN_HOLD_TTL};
use crate::lease::BEGIN;
use crate::money::to_numeric;
use crate::quota::StoredLevel;
use crate::{Ledger, LedgerError, QuotaLevel};

/// A hold is tried again when somebody else took the id, or gave the path its first budget, between two statements.
const ATTEMPTS: u32 = 4;

/// What became of a call for a hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HoldAnswer {
    /// The amount is reserved at every level: by this call, or by the same one before.
    Held(Hold),
    /// A budget does not allow it, and nothing was reserved anywhere: the first level from the subject up that refuses, with its
    /// amounts. Hot money was not asked for.
    Exhausted(Box<QuotaLevel>),
    /// The same hold was made before and reserves nothing any more. A request that runs again needs another id.
    Ended(Hold),
}

/// A call whose values are in range.
struct Wanted<'a> {
    request_id: &'a str,
    subject: &'a ScopeRef,
    amount: Usd,
    numeric: String,
    now: DateTime<Utc>,
    expires_at: DateTime<Utc>,
}

/// What one attempt found.
enum Attempt {
    Placed,
    /// The path has a budget, and its lock is not held.
    NeedsLock,
    /// Neither placed nor refused: somebody has the id.
    Taken,
    Refused(Refusal),
}

enum Refusal {
    UnknownSubject,
    Blocked(ScopeRef),
    Exhausted(Box<QuotaLevel>),
    Settled,
}

impl Ledger {
    /// Reserves an amount for a request at every level of its subject's path, or at none, in one transaction. When it
    /// returns [`HoldAnswer::Held`], the reservation is on disk and counts for everybody.
    ///
    /// A level with a budget admits it if what is settled in the current period, held, and reserved for budgets beside the
    /// path leaves room for it. Hot money is not asked for: where every paid request is held, it is part of what is held.
    ///
    /// # Idempotence
    ///
    /// By request id. The same subject and amount again give the same answer, with the expiry of the first call; another
    /// subject or amount is [`HoldError::Conflict`]. A refusal is not remembered: the same call may succeed later.
    ///
    /// # Concurrency
    ///
    /// Holds below one root decide one after another: each takes an advisory lock of the root first and keeps it to the end of
    /// its transaction. It is the only lock that a hold waits for besides its own request id, so there is no
    /// deadlock. Paths without a budget take no lock, and different roots do not meet.
    ///
    /// # Cancellation
    ///
    /// Dropping the future abandons the hold as for [`Ledger::commit`]: the same call again finds out what became of it.
    ///
    /// # Errors
    ///
    /// [`HoldError`], and nothing was reserved.
    pub async fn hold(
        &self,
        request_id: &str,
        subject: &ScopeRef,
        amount: Usd,
        ttl: Duration,
        now: DateTime<Utc>,
    ) -> Result<HoldAnswer, HoldError> {
        let wanted = Wanted::new(request_id, subject, amount, ttl, now)?;
        let mut lock_always = false;
        for _ in 0..ATTEMPTS {
            let attempt = self.place_once(&wanted, lock_always).await?;
            if let Attempt::Placed = attempt {
                return Ok(HoldAnswer::Held(wanted.placed()));
            }
            if let Some(known) = self.hold_of(request_id).await? {
                return wanted.compare(known);
            }
            match attempt {
                Attempt::Refused(refusal) => return refusal.answer(&wanted),
                Attempt::NeedsLock => lock_always = true,
                Attempt::Placed | Attempt::Taken => {}
            }
        }
        Err(HoldError::Contended(request_id.to_owned()))
    }

    async fn place_once(&self, wanted: &Wanted<'_>, lock_always: bool) -> Result<Attempt, LedgerError> {
        let mut lease = self.lease().await?;
        let mut transaction = lease
            .connection()
            .begin_with(BEGIN)
            .await
            .map_err(LedgerError::query("beginning a transaction"))?;
        match Box::pin(decide(&mut transaction, wanted, lock_always)).await {
            Ok(Attempt::Placed) => {
                transaction.commit().await.map_err(LedgerError::at_commit)?;
                lease.keep();
                Ok(Attempt::Placed)
            }
            Ok(attempt) => {
                if transaction.rollback().await.is_ok() {
                    lease.keep();
                }
                Ok(attempt)
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

/// Locks, then decides and writes with one statement, which sees all that the holder of the lock before had written.
async fn decide(
    connection: &mut PgConnection,
    wanted: &Wanted<'_>,
    lock_always: bool,
) -> Result<Attempt, LedgerError> {
    let (kind, id) = (wanted.subject.kind(), wanted.subject.id());
    let locked = sqlx::query_file!("queries/lock_budgets.sql", kind, id, lock_always)
        .fetch_optional(&mut *connection)
        .await
        .map_err(LedgerError::query("waiting for other holds"))?
        .is_some();
    let rows = sqlx::query_file!(
        "queries/place_hold.sql",
        wanted.request_id,
        kind,
        id,
        wanted.numeric,
        wanted.now,
        wanted.expires_at,
        locked
    )
    .fetch_all(connection)
    .await
    .map_err(LedgerError::query("placing a hold"))?;
    let Some(first) = rows.first() else { return Ok(Attempt::Refused(Refusal::UnknownSubject)) };
    if first.placed {
        return Ok(Attempt::Placed);
    }
    let settled = first.settled;
    let levels = rows.into_iter().map(|row| {
        StoredLevel {
            kind: row.kind,
            id: row.id,
            blocked: row.blocked,
            budget_usd: row.budget_usd,
            period_start: row.period_start,
            period_end: row.period_end,
            settled_usd: row.settled_usd,
            held_usd: row.held_usd,
            reserved_usd: row.reserved_usd,
        }
        .read()
    });
    let levels = levels.collect::<Result<Vec<_>, _>>()?;
    Ok(refusal(levels, settled, locked, wanted.amount))
}

/// Why a path that exists did not admit.
fn refusal(levels: Vec<QuotaLevel>, settled: bool, locked: bool, amount: Usd) -> Attempt {
    if settled {
        return Attempt::Refused(Refusal::Settled);
    }
    if let Some(level) = levels.iter().find(|level| level.blocked) {
        return Attempt::Refused(Refusal::Blocked(level.scope.clone()));
    }
    if !locked && levels.iter().any(|level| level.budget.is_some()) {
        return Attempt::NeedsLock;
    }
    match levels.into_iter().find(|level| level.refuses(amount)) {
        Some(level) => Attempt::Refused(Refusal::Exhausted(Box::new(level))),
        None => Attempt::Taken,
    }
}

impl Refusal {
    fn answer(self, wanted: &Wanted<'_>) -> Result<HoldAnswer, HoldError> {
        match self {
            Self::Exhausted(level) => Ok(HoldAnswer::Exhausted(level)),
            Self::UnknownSubject => Err(HoldError::UnknownSubject(wanted.subject.clone())),
            Self::Blocked(blocked) => Err(HoldError::Blocked { subject: wanted.subject.clone(), blocked }),
            Self::Settled => Err(HoldError::Settled(wanted.request_id.to_owned())),
        }
    }
}

impl<'a> Wanted<'a> {
    fn new(
        request_id: &'a str,
        subject: &'a ScopeRef,
        amount: Usd,
        ttl: Duration,
        now: DateTime<Utc>,
    ) -> Result<Self, HoldError> {
        check_request_id(request_id).map_err(HoldError::RequestId)?;
        if amount <= Usd::ZERO || amount > MAX_HOLD {
            return Err(HoldError::Amount(amount));
        }
        if !(MIN_HOLD_TTL..=MAX_HOLD_TTL).contains(&ttl) {
            return Err(HoldError::Ttl(ttl));
        }
        let now = check_now(now)?;
        let micros = i64::try_from(ttl.as_micros()).map_err(|_| HoldError::Ttl(ttl))?;
        let expires_at =
            now.checked_add_signed(TimeDelta::microseconds(micros)).ok_or(HoldError::Now(now))?;
        Ok(Self { request_id, subject, amount, numeric: to_numeric("a hold", amount)?, now, expires_at })
    }

    fn placed(&self) -> Hold {
        Hold {
            request_id: self.request_id.to_owned(),
            subject: self.subject.clone(),
            amount: self.amount,
            state: HoldState::Held,
            held_at: self.now,
            expires_at: self.expires_at,
            ended_at: None,
            settled_at: None,
            cost: None,
        }
    }

    /// What a hold that is there already means for this call.
    fn compare(&self, known: Hold) -> Result<HoldAnswer, HoldError> {
        if known.subject != *self.subject || known.amount != self.amount {
            return Err(HoldError::Conflict {
                request_id: known.request_id,
                held_by: known.subject,
                held: known.amount,
                subject: self.subject.clone(),
                amount: self.amount,
            });
        }
        Ok(if known.reserves(self.now) { HoldAnswer::Held(known) } else { HoldAnswer::Ended(known) })
    }
}

/// The rule for ids is the queue's; a request id follows it as the id of a scope does.
pub(super) fn check_request_id(request_id: &str) -> Result<(), TextProblem> {
    match ScopeRef::new("request", request_id) {
        Err(ScopeRefError::Id(problem)) => Err(problem),
        _ => Ok(()),
    }
}

/// A time that the ledger keeps, in the whole microseconds that it keeps.
pub(super) fn check_now(now: DateTime<Utc>) -> Result<DateTime<Utc>, HoldError> {
    if !(1970..=9999).contains(&now.year()) {
        return Err(HoldError::Now(now));
    }
    Ok(DateTime::from_timestamp_micros(now.timestamp_micros()).unwrap_or(now))
}
