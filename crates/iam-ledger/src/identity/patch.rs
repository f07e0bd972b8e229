//! A change of some fields of an identity.

use rate_plan::Limits;
use spend_queue::Usd;

use super::check::{check_budget, check_limits, check_name, check_time_zone, refused};
use super::{BudgetPeriod, ScopeKind};
use crate::LedgerError;

/// What becomes of a value that may be absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Change<T> {
    /// It stays as it is.
    #[default]
    Keep,
    /// It is taken away: a limit becomes shared, a budget unbounded.
    Clear,
    /// It becomes this.
    Set(T),
}

/// What to change of an identity; everything else stays. Owners never change: usage of the past is booked under them.
///
/// ```
/// use iam_ledger::{BudgetPeriod, IdentityPatch};
///
/// let patch = IdentityPatch::new().set_rpm(60).clear_tpm().set_period(BudgetPeriod::Monthly).set_blocked(true);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IdentityPatch {
    /// What people call it, 0 to [`MAX_NAME_BYTES`](crate::MAX_NAME_BYTES). `None` keeps.
    pub name: Option<String>,
    /// Whether it is refused whatever its limits. `None` keeps.
    pub blocked: Option<bool>,
    /// Requests per minute, 0 to [`MAX_RATE_LIMIT`](crate::MAX_RATE_LIMIT).
    pub rpm: Change<u64>,
    /// Tokens per minute, 0 to [`MAX_RATE_LIMIT`](crate::MAX_RATE_LIMIT).
    pub tpm: Change<u64>,
    /// The bound of the budget, 0 to [`MAX_BUDGET`](crate::MAX_BUDGET).
    pub budget: Change<Usd>,
    /// When spend starts again at zero. `None` keeps.
    pub period: Option<BudgetPeriod>,
    /// Whose midnight it is. `None` keeps.
    pub time_zone: Option<String>,
}

impl<T> Change<T> {
    pub(super) const fn is_change(&self) -> bool {
        !matches!(self, Self::Keep)
    }

    /// The new value; none where it is kept or cleared.
    pub(super) fn value(self) -> Option<T> {
        match self {
            Self::Set(value) => Some(value),
            Self::Keep | Self::Clear => None,
        }
    }
}

impl IdentityPatch {
    /// Changes nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Another name.
    #[must_use]
    pub fn set_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Blocks, or lifts the block.
    #[must_use]
    pub const fn set_blocked(mut self, blocked: bool) -> Self {
        self.blocked = Some(blocked);
        self
    }

    /// So many requests per minute.
    #[must_use]
    pub const fn set_rpm(mut self, limit: u64) -> Self {
        self.rpm = Change::Set(limit);
        self
    }

    /// Shared in requests per minute.
    #[must_use]
    pub const fn clear_rpm(mut self) -> Self {
        self.rpm = Change::Clear;
        self
    }

    /// So many tokens per minute.
    #[must_use]
    pub const fn set_tpm(mut self, limit: u64) -> Self {
        self.tpm = Change::Set(limit);
        self
    }

    /// Shared in tokens per minute.
    #[must_use]
    pub const fn clear_tpm(mut self) -> Self {
        self.tpm = Change::Clear;
        self
    }

    /// So much money in a period.
    #[must_use]
    pub const fn set_budget(mut self, amount: Usd) -> Self {
        self.budget = Change::Set(amount);
        self
    }

    /// No bound on money.
    #[must_use]
    pub const fn clear_budget(mut self) -> Self {
        self.budget = Change::Clear;
        self
    }

    /// Spend starts again at zero this often, from the next commit on.
    #[must_use]
    pub const fn set_period(mut self, period: BudgetPeriod) -> Self {
        self.period = Some(period);
        self
    }

    /// Periods begin at this zone's midnight.
    #[must_use]
    pub fn set_time_zone(mut self, name: impl Into<String>) -> Self {
        self.time_zone = Some(name.into());
        self
    }

    /// Whether it may change what is allocated.
    pub(super) fn allocates(&self) -> bool {
        self.rpm.is_change()
            || self.tpm.is_change()
            || self.budget.is_change()
            || self.period.is_some()
            || self.time_zone.is_some()
    }

    pub(super) fn check(&self, kind: ScopeKind, id: &str) -> Result<(), LedgerError> {
        let refuse = |problem| refused(kind, id, problem);
        self.name.as_deref().map_or(Ok(()), check_name).map_err(refuse)?;
        check_limits(Limits { rpm: self.rpm.value(), tpm: self.tpm.value() }).map_err(refuse)?;
        self.budget.value().map_or(Ok(()), check_budget).map_err(refuse)?;
        self.time_zone.as_deref().map_or(Ok(()), check_time_zone).map_err(refuse)
    }
}
