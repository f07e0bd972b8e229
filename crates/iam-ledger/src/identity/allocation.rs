//! What a parent has, and what its children were promised of it.
//!
//! The rule: a write is refused exactly if it leaves some scope with more allocated beyond what it has than before. So a
//! scope that is over-allocated already (its spend grew, or rows came from elsewhere) does not stop writes that
//! make it no worse.

use core::fmt;

use chrono::{DateTime, Utc};
use spend_queue::Usd;
use sqlx::PgConnection;

use super::ScopeKind;
use super::roots::Roots;
use crate::LedgerError;
use crate::money::from_numeric;

/// What can be allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AllocationDimension {
    /// Requests per minute.
    Rpm,
    /// Tokens per minute.
    Tpm,
    /// Money.
    Usd,
}

/// An amount of one [`AllocationDimension`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// Requests or tokens per minute.
    PerMinute(u64),
    /// Money.
    Usd(Usd),
}

/// More would be allocated than a scope has. Nothing was written; a retry cannot help.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverAllocation {
    /// The kind of the scope that has too little: the nearest one above with a bound, or the changed one itself.
    pub kind: ScopeKind,
    /// Its id.
    pub id: String,
    /// Of what it has too little.
    pub dimension: AllocationDimension,
    /// What it would have after the write: its limit, or what is left of its budget in the current period.
    pub available: Quantity,
    /// What was allocated below it before.
    pub allocated: Quantity,
    /// How much more the write would allocate; zero when it lowers what the scope has.
    pub asked: Quantity,
}

/// One scope's state in one dimension. Money is in picodollars.
pub(super) struct Allocation {
    kind: ScopeKind,
    id: String,
    dimension: AllocationDimension,
    available: Option<i128>,
    allocated: i128,
}

impl Allocation {
    /// The scopes that have allocated more than they have.
    pub(super) async fn excessive(
        connection: &mut PgConnection,
        roots: &Roots,
        now: Option<DateTime<Utc>>,
    ) -> Result<Vec<Self>, LedgerError> {
        Self::read(connection, roots, now, None).await
    }

    /// The same scopes as they are now; those that do not exist are absent.
    pub(super) async fn same(
        connection: &mut PgConnection,
        roots: &Roots,
        now: Option<DateTime<Utc>>,
        of: &[Self],
    ) -> Result<Vec<Self>, LedgerError> {
        Self::read(connection, roots, now, Some(of)).await
    }

    async fn read(
        connection: &mut PgConnection,
        roots: &Roots,
        now: Option<DateTime<Utc>>,
        of: Option<&[Self]>,
    ) -> Result<Vec<Self>, LedgerError> {
        let kinds: Option<Vec<&str>> = of.map(|of| of.iter().map(|one| one.kind.as_str()).collect());
        let ids: Option<Vec<&str>> = of.map(|of| of.iter().map(|one| &*one.id).collect());
        let rows = sqlx::query_file!(
            "queries/allocations.sql",
            &roots.organizations as &[String],
            &roots.users as &[String],
            now,
            kinds.as_deref() as Option<&[&str]>,
            ids.as_deref() as Option<&[&str]>,
        )
        .fetch_all(connection)
        .await
        .map_err(LedgerError::query("reading allocations"))?;
        rows.into_iter()
            .map(|row| {
                let unreadable =
                    |column, value: &str| LedgerError::Unreadable { column, value: value.to_owned() };
                let dimension = AllocationDimension::from_word(&row.dimension)
                    .ok_or_else(|| unreadable("dimension", &row.dimension))?;
                Ok(Self {
                    kind: ScopeKind::from_word(&row.kind).ok_or_else(|| unreadable("kind", &row.kind))?,
                    id: row.id,
                    dimension,
                    available: row.available.as_deref().map(|text| dimension.read(text)).transpose()?,
                    allocated: dimension.read(&row.allocated)?,
                })
            })
            .collect()
    }

    /// The worst consequence of a write, if there is one: requests first, then leaf before root.
    pub(super) fn refusal(before: &[Self], after: &[Self]) -> Option<OverAllocation> {
        let worse = after.iter().filter_map(|after| {
            let before = before.iter().find(|before| {
                (before.kind, before.dimension, &before.id) == (after.kind, after.dimension, &after.id)
            });
            let allocated = before.map_or(0, |before| before.allocated);
            (after.excess() > before.map_or(0, Self::excess)).then(|| OverAllocation {
                kind: after.kind,
                id: after.id.clone(),
                dimension: after.dimension,
                available: after.dimension.quantity(after.available.unwrap_or_default()),
                allocated: after.dimension.quantity(allocated),
                asked: after.dimension.quantity(after.allocated - allocated),
            })
        });
        worse.min_by_key(|refusal| (refusal.dimension, core::cmp::Reverse(refusal.kind)))
    }

    fn excess(&self) -> i128 {
        self.available.map_or(0, |available| (self.allocated - available).max(0))
    }
}

impl AllocationDimension {
    fn from_word(word: &str) -> Option<Self> {
        [Self::Rpm, Self::Tpm, Self::Usd].into_iter().find(|dimension| dimension.as_str() == word)
    }

    /// `rpm`, `tpm` or `usd`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rpm => "rpm",
            Self::Tpm => "tpm",
            Self::Usd => "usd",
        }
    }

    fn read(self, text: &str) -> Result<i128, LedgerError> {
        match self {
            Self::Rpm | Self::Tpm => text
                .parse()
                .map_err(|_| LedgerError::Unreadable { column: "allocated", value: text.to_owned() }),
            Self::Usd => from_numeric("allocated", text).map(Usd::picos),
        }
    }

    fn quantity(self, amount: i128) -> Quantity {
        match self {
            Self::Rpm | Self::Tpm => Quantity::PerMinute(u64::try_from(amount.max(0)).unwrap_or(u64::MAX)),
            Self::Usd => Quantity::Usd(Usd::from_picos(amount.max(0))),
        }
    }
}

impl fmt::Display for AllocationDimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PerMinute(amount) => write!(f, "{amount}"),
            Self::Usd(amount) => write!(f, "{amount} USD"),
        }
    }
}

impl fmt::Display for OverAllocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, id, dimension, available, allocated, asked } = self;
        write!(
            f,
            "{kind} {id:?} would have {available} in {dimension}, with {allocated} allocated below it"
        )?;
        write!(f, " and {asked} more asked")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rpm(available: Option<i128>, allocated: i128) -> Allocation {
        Allocation {
            kind: ScopeKind::Team,
            id: "t".to_owned(),
            dimension: AllocationDimension::Rpm,
            available,
            allocated,
        }
    }

    #[test]
    fn only_a_write_that_makes_it_worse_is_refused() {
        for (before, after, refused) in [
            (Some(rpm(Some(100), 60)), rpm(Some(100), 120), true),
            (None, rpm(Some(100), 120), true),
            (Some(rpm(None, 120)), rpm(Some(100), 120), true),
            (Some(rpm(Some(100), 120)), rpm(Some(90), 120), true),
            (Some(rpm(Some(100), 120)), rpm(Some(100), 121), true),
            (Some(rpm(Some(100), 120)), rpm(Some(100), 120), false),
            (Some(rpm(Some(100), 130)), rpm(Some(100), 120), false),
            (Some(rpm(Some(100), 130)), rpm(Some(110), 130), false),
        ] {
            let before: Vec<_> = before.into_iter().collect();
            let found = Allocation::refusal(&before, &[after]);
            assert_eq!(found.is_some(), refused, "{found:?}");
        }
    }

    #[test]
    fn a_refusal_names_the_scope_and_the_numbers() {
        let refusal = Allocation::refusal(&[rpm(Some(100), 60)], &[rpm(Some(100), 120)]).unwrap();
        assert_eq!(
            refusal.to_string(),
            "team \"t\" would have 100 in rpm, with 60 allocated below it and 60 more asked"
        );
    }
}
