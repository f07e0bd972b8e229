//! What people ask the ledger: usage by day, model and owner, spend by period, open holds, overruns. Each read is one query of
//! the view of its name, with the same filter.

use chrono::{DateTime, NaiveDate, Utc};
use spend_queue::{ScopeRef, Usd};
use thiserror::Error;

use crate::money::from_numeric;
use crate::quota::scope;
use crate::usage_sums::{UsageSums, counted, usage_sums};
use crate::{Ledger, LedgerError};

/// The most rows of one read.
pub const MAX_REPORT_ROWS: u32 = 100_000;

/// Which rows to read. Days are UTC: those of the events' start for usage, of the period's first instant for spend, of the hold's
/// making for holds, of the commit for overruns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportFilter {
    /// One organization (the empty text: what has none), or all.
    pub organization_id: Option<String>,
    /// The first day; `None` from the beginning.
    pub from: Option<NaiveDate>,
    /// The last day, included; `None` without an end.
    pub to: Option<NaiveDate>,
    /// At most so many rows, 1 to [`MAX_REPORT_ROWS`].
    pub limit: u32,
}

/// A filter that cannot be meant.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReportFilterError {
    /// The range ends before it begins.
    #[error("the range of days ends on {to}, before it begins on {from}")]
    Range {
        /// The first day.
        from: NaiveDate,
        /// The last day.
        to: NaiveDate,
    },
    /// The limit is out of range.
    #[error("a limit of {0} rows; 1 to {MAX_REPORT_ROWS} is accepted")]
    Limit(u32),
    /// The ledger could not be read.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// Usage of one UTC day and organization.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageDay {
    /// The day.
    pub day: NaiveDate,
    /// The organization; empty for none.
    pub organization_id: String,
    /// The sums.
    pub sums: UsageSums,
}

/// Usage of one model over the range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelUsage {
    /// The organization; empty for none.
    pub organization_id: String,
    /// The provider; empty for none.
    pub provider: String,
    /// The model.
    pub model: String,
    /// The sums.
    pub sums: UsageSums,
}

/// Usage of one owner over the range, charged to it or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScopeUsage {
    /// The organization; empty for none.
    pub organization_id: String,
    /// The owner.
    pub scope: ScopeRef,
    /// The sums.
    pub sums: UsageSums,
}

/// What a scope was charged in one budget period.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScopePeriod {
    /// The charged scope.
    pub scope: ScopeRef,
    /// Its organization now; `None` for none, or for a scope that no table knows.
    pub organization_id: Option<String>,
    /// The period's first instant; the Unix epoch for a scope without a period.
    pub period_start: DateTime<Utc>,
    /// The sum of the charges.
    pub spend: Usd,
    /// The number of charges.
    pub paid_events: u64,
    /// Its budget now.
    pub budget: Option<Usd>,
    /// Its budget period now (`none`, `daily`, `weekly`, `monthly`); `None` for a scope that no table knows.
    pub budget_period: Option<String>,
}

/// A hold that nobody ended yet. One past its expiry reserves nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenHold {
    /// The request.
    pub request_id: String,
    /// For whom.
    pub subject: ScopeRef,
    /// The subject's organization.
    pub organization_id: Option<String>,
    /// What is reserved at every level.
    pub amount: Usd,
    /// When it was made.
    pub held_at: DateTime<Utc>,
    /// From this instant on it reserves nothing.
    pub expires_at: DateTime<Utc>,
}

/// A request that cost more than was held for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overrun {
    /// The request.
    pub request_id: String,
    /// For whom.
    pub subject: ScopeRef,
    /// The subject's organization.
    pub organization_id: Option<String>,
    /// What was held.
    pub amount: Usd,
    /// What it cost.
    pub cost: Usd,
    /// The difference.
    pub overrun: Usd,
    /// When its event was committed.
    pub settled_at: DateTime<Utc>,
    /// Whether the hold still reserved money then; if not, it had expired or been released.
    pub covered: bool,
}

/// A filter as the queries take it.
struct Bounds<'a> {
    organization: Option<&'a str>,
    from: Option<NaiveDate>,
    until: Option<NaiveDate>,
    limit: i64,
}

impl ReportFilter {
    fn bounds(&self) -> Result<Bounds<'_>, ReportFilterError> {
        if let (Some(from), Some(to)) = (self.from, self.to)
            && to < from
        {
            return Err(ReportFilterError::Range { from, to });
        }
        if !(1..=MAX_REPORT_ROWS).contains(&self.limit) {
            return Err(ReportFilterError::Limit(self.limit));
        }
        Ok(Bounds {
            organization: self.organization_id.as_deref(),
            from: self.from,
            // No day after the last that there is: then there is no end either.
            until: self.to.and_then(|day| day.succ_opt()),
            limit: self.limit.into(),
        })
    }
}

/// Runs one of the report queries and reads its rows.
macro_rules! rows {
    ($ledger:expr, $filter:expr, $file:literal, $step:literal, $read:expr) => {{
        let bounds = $filter.bounds()?;
        let rows = sqlx::query_file!($file, bounds.organization, bounds.from, bounds.until, bounds.limit)
            .fetch_all(&$ledger.pool)
            .await
            .map_err(|error| $ledger.failed($step, error))?;
        rows.into_iter().map($read).collect::<Result<Vec<_>, LedgerError>>().map_err(ReportFilterError::from)
    }};
}

impl Ledger {
    /// Usage by UTC day and organization, newest first.
    ///
    /// # Errors
    ///
    /// [`ReportFilterError`].
    pub async fn usage_by_day(&self, filter: &ReportFilter) -> Result<Vec<UsageDay>, ReportFilterError> {
        rows!(self, filter, "queries/report_days.sql", "reading usage by day", |row| {
            Ok(UsageDay { day: row.day, sums: usage_sums!(row), organization_id: row.organization_id })
        })
    }

    /// Usage by organization, provider and model, the dearest first.
    ///
    /// # Errors
    ///
    /// [`ReportFilterError`].
    pub async fn usage_by_model(&self, filter: &ReportFilter) -> Result<Vec<ModelUsage>, ReportFilterError> {
        rows!(self, filter, "queries/report_models.sql", "reading usage by model", |row| {
            Ok(ModelUsage {
                sums: usage_sums!(row),
                organization_id: row.organization_id,
                provider: row.provider,
                model: row.model,
            })
        })
    }

    /// Usage by owner (organization, team, project, user, key), the dearest first. One event counts for each of its owners.
    ///
    /// # Errors
    ///
    /// [`ReportFilterError`].
    pub async fn usage_by_scope(&self, filter: &ReportFilter) -> Result<Vec<ScopeUsage>, ReportFilterError> {
        rows!(self, filter, "queries/report_scopes.sql", "reading usage by scope", |row| {
            Ok(ScopeUsage {
                sums: usage_sums!(row),
                organization_id: row.organization_id,
                scope: scope(row.kind, row.id)?,
            })
        })
    }

    /// Spend by scope and budget period, newest first.
    ///
    /// # Errors
    ///
    /// [`ReportFilterError`].
    pub async fn spend_by_period(
        &self,
        filter: &ReportFilter,
    ) -> Result<Vec<ScopePeriod>, ReportFilterError> {
        rows!(self, filter, "queries/report_periods.sql", "reading spend by period", |row| {
            Ok(ScopePeriod {
                scope: scope(row.kind, row.id)?,
                organization_id: row.organization_id,
                period_start: row.period_start,
                spend: from_numeric("spend_usd", &row.spend_usd)?,
                paid_events: counted("paid_events", row.paid_events)?,
                budget: row.budget_usd.map(|budget| from_numeric("budget_usd", &budget)).transpose()?,
                budget_period: row.budget_period,
            })
        })
    }

    /// Holds that nobody ended yet, newest first.
    ///
    /// # Errors
    ///
    /// [`ReportFilterError`].
    pub async fn open_holds(&self, filter: &ReportFilter) -> Result<Vec<OpenHold>, ReportFilterError> {
        rows!(self, filter, "queries/report_holds.sql", "reading open holds", |row| {
            Ok(OpenHold {
                request_id: row.request_id,
                subject: scope(row.kind, row.id)?,
                organization_id: row.organization_id,
                amount: from_numeric("amount_usd", &row.amount_usd)?,
                held_at: row.held_at,
                expires_at: row.expires_at,
            })
        })
    }

    /// Requests that cost more than was held for them, newest first.
    ///
    /// # Errors
    ///
    /// [`ReportFilterError`].
    pub async fn overruns(&self, filter: &ReportFilter) -> Result<Vec<Overrun>, ReportFilterError> {
        rows!(self, filter, "queries/report_overruns.sql", "reading overruns", |row| {
            Ok(Overrun {
                request_id: row.request_id,
                subject: scope(row.kind, row.id)?,
                organization_id: row.organization_id,
                amount: from_numeric("amount_usd", &row.amount_usd)?,
                cost: from_numeric("cost_usd", &row.cost_usd)?,
                overrun: from_numeric("overrun_usd", &row.overrun_usd)?,
                settled_at: row.settled_at,
                covered: row.covered,
            })
        })
    }
}
