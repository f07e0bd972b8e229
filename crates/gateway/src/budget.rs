//! Step 4: is there money left? A path without any budget is not asked about.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use iam_ledger::{HoldAnswer, InFlight, QuotaPath};
use spend_queue::Usd;

use crate::call::Call;
use crate::config::BudgetMode;
use crate::error::ApiError;
use crate::state::{Quota, Quotas};

/// Looks at what is left, or sets the most that the call can cost aside. `true`: money is held under the call's id, to be
/// released if nothing is billed.
pub(crate) async fn cover(call: &Call) -> Result<bool, ApiError> {
    if !call.identity.is_budgeted() {
        return Ok(false);
    }
    let ceiling = ceiling(call);
    match call.state.config.budget.mode {
        BudgetMode::Check => check(call, ceiling).await.map(|()| false),
        // Nothing can be held for what is free; whether the budget is zero or blocked still counts.
        BudgetMode::Hold if ceiling.is_zero() => check(call, ceiling).await.map(|()| false),
        BudgetMode::Hold => hold(call, ceiling).await.map(|()| true),
    }
}

/// Whether what was last read of the key's path would let the call pass, however long ago that was. A guess: it decides which
/// question is asked first, and no answer.
pub(crate) fn is_likely(call: &Call) -> bool {
    let passes =
        |quota: Arc<Quota>| quota.as_ref().as_ref().is_ok_and(|path| path.refusing(ceiling(call)).is_none());
    call.identity.is_budgeted()
        && call.state.config.budget.mode == BudgetMode::Check
        && call.state.quota_bounds.last(&call.subject).is_some_and(passes)
}

/// What costs more than can be counted costs more than any budget has.
fn ceiling(call: &Call) -> Usd {
    call.ceiling().unwrap_or(Usd::from_picos(i64::MAX.into()))
}

/// Asks for the lower bound of what is left, which is enough for all but those who are near the end of their money.
async fn check(call: &Call, ceiling: Usd) -> Result<(), ApiError> {
    let (state, subject) = (&call.state, &call.subject);
    // Separate: another gateway of the same tenant may hold.
    let bound = || state.ledger.quota_lower_bound(subject, &state.redis, InFlight::Separate, call.at);
    let bound = shared(call, &state.quota_bounds, bound).await;
    let bound = read(call, &bound)?;
    match bound.refusing(ceiling) {
        None => return Ok(()),
        Some(level) if bound.exact || level.blocked || level.reserved.is_zero() => {
            return Err(ApiError::budget_exceeded(level, ceiling));
        }
        // What is kept for budgets beside the path may be less.
        Some(_) => {}
    }
    let whole = || state.ledger.quota_path_with(subject, &state.redis, InFlight::Separate, call.at);
    let whole = shared(call, &state.quotas, whole).await;
    match read(call, &whole)?.refusing(ceiling) {
        None => Ok(()),
        Some(level) => Err(ApiError::budget_exceeded(level, ceiling)),
    }
}

/// A read that began after the call came, of the periods that it came in: requests of about the same moment share one.
async fn shared<R: Future<Output = Quota>>(call: &Call, reads: &Quotas, ask: impl Fn() -> R) -> Arc<Quota> {
    let quota = reads.get(&call.subject, ask()).await;
    if is_of(&quota, call.at) { quota } else { Arc::new(ask().await) }
}

fn read<'a>(call: &Call, quota: &'a Quota) -> Result<&'a QuotaPath, ApiError> {
    quota.as_ref().map_err(|error| ApiError::quota(&call.subject, error))
}

/// Whether a read that requests of about the same moment share is of the periods that this moment is in.
fn is_of(quota: &Quota, at: DateTime<Utc>) -> bool {
    let Ok(path) = quota else { return true };
    path.levels.iter().all(|level| level.period_start <= at && level.period_end.is_none_or(|end| at < end))
}

async fn hold(call: &Call, ceiling: Usd) -> Result<(), ApiError> {
    let state = &call.state;
    let time = state.config.budget.hold_time();
    match state.ledger.hold(call.id.as_str(), &call.subject, ceiling, time, call.at).await {
        Ok(HoldAnswer::Held(_)) => Ok(()),
        Ok(HoldAnswer::Exhausted(level)) => Err(ApiError::budget_exceeded(&level, ceiling)),
        // The same id ran before: its claim has expired, its hold has not been forgotten.
        Ok(HoldAnswer::Ended(_)) => Err(ApiError::idempotency_key_reused()),
        Err(error) => {
            // It may have been made although no answer came.
            if error.is_transient() {
                release(call).await;
            }
            Err(ApiError::hold(&error))
        }
    }
}

/// Gives held money back. If that fails, the hold expires by itself.
pub(crate) async fn release(call: &Call) {
    if let Err(error) = call.state.ledger.release(call.id.as_str(), Utc::now()).await {
        tracing::warn!(request_id = call.id.as_str(), %error, "held money was not released; it is free when it expires");
    }
}
