//! The arithmetic of budgets: what a level has used, what it reserves for others, and what is left. Pure, in picodollars.
//!
//! It is the rule of rate limits applied to money. At a level with budget `L`, used money `u` and held-back money `S` (the unused
//! budgets of the nearest budgeted scopes below it, those on the path left out), a demand `d` passes if `u + S + d <= L`;
//! a budget of zero always refuses. Leaving out the path's own allocation is the rule's *credit*: a request draws on it first.
//! `rate_plan` counts in integers below 2^53, which is 9,007 USD in picodollars, so it decides rates and is the oracle of this
//! module's tests, but cannot hold these amounts.

use chrono::{DateTime, Utc};
use spend_queue::{ScopeRef, Usd};

/// How hot and held money of one scope are put together, which depends on who makes holds.
///
/// Both are known as sums only, so nobody can tell which hot events have a hold that is still open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum InFlight {
    /// Every paid request is held before it runs, or none is: the larger of the two counts. A held request's hot cost is
    /// part of its hold until the commit settles both, so adding them would count it twice.
    #[default]
    Covered,
    /// Some requests are held and others are not: both count. A request that is hot and held is then counted twice until its
    /// commit, which errs on the side of the budget.
    Separate,
}

/// One level of a subject's path: what its budget is and where it went.
///
/// `remaining = max(0, budget - used - reserved)` with `used = settled + in flight`, where in flight is what [`InFlight`]
/// makes of `hot` and `held`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaLevel {
    /// Whose level it is.
    pub scope: ScopeRef,
    /// Whether the scope is blocked, whatever its budget says.
    pub blocked: bool,
    /// What may be spent in the period; `None` for no bound.
    pub budget: Option<Usd>,
    /// The first instant of the current period; the Unix epoch for a scope without a period.
    pub period_start: DateTime<Utc>,
    /// The first instant of the next period; `None` for a scope without a period.
    pub period_end: Option<DateTime<Utc>>,
    /// Committed spend of the current period, by the start of the events.
    pub settled: Usd,
    /// Enqueued and not yet acknowledged spend; `None` when it was not asked for, since nothing depends on it.
    pub hot: Option<Usd>,
    /// What open holds reserve here. A hold counts in whatever period is current while it is open.
    pub held: Usd,
    /// Settled plus in flight.
    pub used: Usd,
    /// Unused budgets below this level that other subjects have a right to.
    pub reserved: Usd,
    /// What the subject may still spend here, 0 or more; `None` for no bound.
    pub remaining: Option<Usd>,
}

impl QuotaLevel {
    /// Whether this level refuses a demand; a level without a budget never does. A demand of zero asks whether anything at all
    /// is left.
    #[must_use]
    pub fn refuses(&self, demand: Usd) -> bool {
        self.remaining.is_some_and(|remaining| remaining.is_zero() || remaining < demand)
    }
}

/// Settled plus in flight.
pub(crate) fn used(rule: InFlight, settled: Usd, hot: Usd, held: Usd) -> Usd {
    add(
        settled,
        match rule {
            InFlight::Covered => hot.max(held),
            InFlight::Separate => add(hot, held),
        },
    )
}

/// `max(0, left - taken)`: what is left of a budget, or of what is left of it.
pub(crate) fn unused(left: Usd, taken: Usd) -> Usd {
    Usd::from_picos(left.picos().saturating_sub(taken.picos()).max(0))
}

/// Sums stay far below the bounds of `i128`: a stored amount has 30 digits, and `i128` has 38.
pub(crate) fn add(left: Usd, right: Usd) -> Usd {
    Usd::from_picos(left.picos().saturating_add(right.picos()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picos(picos: i128) -> Usd {
        Usd::from_picos(picos)
    }

    fn level(budget: Option<i128>, used: i128, reserved: i128) -> QuotaLevel {
        let remaining = budget.map(|budget| unused(picos(budget), add(picos(used), picos(reserved))));
        QuotaLevel {
            scope: ScopeRef::new("team", "t").unwrap(),
            blocked: false,
            budget: budget.map(picos),
            period_start: DateTime::UNIX_EPOCH,
            period_end: None,
            settled: picos(used),
            hot: None,
            held: Usd::ZERO,
            used: picos(used),
            reserved: picos(reserved),
            remaining,
        }
    }

    #[test]
    fn a_demand_passes_up_to_the_last_picodollar() {
        assert!(!level(Some(10), 3, 4).refuses(picos(3)));
        assert!(level(Some(10), 3, 4).refuses(picos(4)));
        assert!(level(Some(10), 6, 4).refuses(Usd::ZERO), "nothing is left");
        assert!(level(Some(10), 60, 0).refuses(picos(1)), "more was used than there is");
        assert!(level(Some(0), 0, 0).refuses(Usd::ZERO), "zero always refuses");
        assert!(!level(None, 1, 0).refuses(picos(i128::MAX)), "no budget never does");
    }

    #[test]
    fn what_is_hot_and_held_counts_once_where_holds_cover_it_and_as_two_where_they_may_not() {
        let of = |rule, hot, held| used(rule, picos(100), picos(hot), picos(held)).picos();
        assert_eq!((of(InFlight::Covered, 3, 5), of(InFlight::Separate, 3, 5)), (105, 108));
        assert_eq!((of(InFlight::Covered, 7, 5), of(InFlight::Separate, 7, 5)), (107, 112));
        assert_eq!((of(InFlight::Covered, 7, 0), of(InFlight::Separate, 7, 0)), (107, 107));
    }
}
