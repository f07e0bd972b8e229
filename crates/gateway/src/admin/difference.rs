//! What an identity is, against what it shall be.

use iam_ledger::{BudgetPeriod, Change, IdentityPatch, IdentityRecord, NewIdentity};
use serde::Serialize;
use spend_queue::Usd;

/// How one becomes the other, in two steps: what takes away from an identity, and what gives to it. Whoever takes
/// from children before parents and then gives to parents before children meets no over-allocation on the way when
/// there is none at the end.
#[derive(Debug, Default)]
pub(super) struct Difference {
    pub(super) lower: IdentityPatch,
    pub(super) raise: IdentityPatch,
    pub(super) changes: Vec<FieldChange>,
}

/// One field, for people.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct FieldChange {
    pub(super) field: &'static str,
    pub(super) was: String,
    pub(super) now: String,
}

impl Difference {
    /// Owners are not compared: they never change.
    pub(super) fn between(record: &IdentityRecord, wanted: &NewIdentity) -> Self {
        let mut found = Self::default();
        if record.name != wanted.name {
            found.raise.name = Some(wanted.name.clone());
            found.note("name", format!("{:?}", record.name), format!("{:?}", wanted.name));
        }
        (found.lower.rpm, found.raise.rpm) = split(record.limits.rpm, wanted.limits.rpm);
        (found.lower.tpm, found.raise.tpm) = split(record.limits.tpm, wanted.limits.tpm);
        found.compare("rpm", limit(record.limits.rpm), limit(wanted.limits.rpm));
        found.compare("tpm", limit(record.limits.tpm), limit(wanted.limits.tpm));
        let (was, now) = (&record.budget, &wanted.budget);
        (found.lower.budget, found.raise.budget) = split(was.amount, now.amount);
        found.compare("budget_usd", amount(was.amount), amount(now.amount));
        found.raise.period = (was.period != now.period).then_some(now.period);
        found.compare("budget_period", period(was.period), period(now.period));
        if was.time_zone != now.time_zone {
            found.raise.time_zone = Some(now.time_zone.clone());
        }
        found.compare("budget_time_zone", was.time_zone.clone(), now.time_zone.clone());
        found
    }

    pub(super) fn is_none(&self) -> bool {
        self.changes.is_empty()
    }

    fn compare(&mut self, field: &'static str, was: String, now: String) {
        if was != now {
            self.note(field, was, now);
        }
    }

    fn note(&mut self, field: &'static str, was: String, now: String) {
        self.changes.push(FieldChange { field, was, now });
    }
}

/// The step that takes and the step that gives. No bound at all takes nothing from others: what is below still has its own.
fn split<T: Copy + PartialOrd>(was: Option<T>, now: Option<T>) -> (Change<T>, Change<T>) {
    match (was, now) {
        (Some(was), Some(now)) if now < was => (Change::Set(now), Change::Keep),
        (Some(_), None) => (Change::Clear, Change::Keep),
        (was, Some(now)) if was != Some(now) => (Change::Keep, Change::Set(now)),
        _ => (Change::Keep, Change::Keep),
    }
}

pub(super) fn amount(amount: Option<Usd>) -> String {
    amount.map_or_else(|| "none".to_owned(), |amount| amount.to_string())
}

fn limit(limit: Option<u64>) -> String {
    limit.map_or_else(|| "none".to_owned(), |limit| limit.to_string())
}

fn period(period: BudgetPeriod) -> String {
    period.as_str().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taking_and_giving_are_different_steps() {
        assert_eq!(split(Some(5), Some(3)), (Change::Set(3), Change::Keep));
        assert_eq!(split(Some(5), None), (Change::Clear, Change::Keep));
        assert_eq!(split(Some(3), Some(5)), (Change::Keep, Change::Set(5)));
        assert_eq!(split(None, Some(5)), (Change::Keep, Change::Set(5)));
        assert_eq!(split(Some(5), Some(5)), (Change::Keep, Change::Keep));
        assert_eq!(split::<u64>(None, None), (Change::Keep, Change::Keep));
    }
}
