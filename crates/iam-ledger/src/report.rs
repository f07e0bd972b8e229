//! Reading the ledger back: sums for reconciliation, usage for people, every settled event for an audit.

use chrono::{DateTime, NaiveDate, Utc};
use spend_queue::{ScopeRef, Usd};

use crate::money::from_numeric;
use crate::usage_sums::{UsageSums, counted, usage_sums};
use crate::{Ledger, LedgerError};

/// What the ledger holds, counted three ways that must agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Totals {
    /// Requests in the permanent guard.
    pub settled_requests: u64,
    /// Stored events.
    pub events: u64,
    /// Stored events without a cost.
    pub unpriced_events: u64,
    /// Events counted in the daily sums.
    pub daily_events: u64,
    /// The sum of all events' costs.
    pub cost_by_events: Usd,
    /// The sum of all daily costs.
    pub cost_by_days: Usd,
}

impl Totals {
    /// Whether every request has one event and the sums agree.
    #[must_use]
    pub fn agree(&self) -> bool {
        self.settled_requests == self.events
            && self.events == self.daily_events
            && self.cost_by_events == self.cost_by_days
    }
}

/// Which usage to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageRange {
    /// One organization (the empty text: usage without one), or all.
    pub organization_id: Option<String>,
    /// The first UTC day.
    pub from: NaiveDate,
    /// The UTC day after the last.
    pub until: NaiveDate,
}

/// Usage of one UTC day by organization, provider and model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DailyUsage {
    /// The UTC day of the events' start.
    pub day: NaiveDate,
    /// The organization; empty for none.
    pub organization_id: String,
    /// The provider; empty for none.
    pub provider: String,
    /// The model.
    pub model: String,
    /// The sums.
    pub sums: UsageSums,
}

/// Settled spend of all scopes of one kind, over all periods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KindSpend {
    /// The kind.
    pub kind: String,
    /// How many scopes of the kind were ever charged.
    pub scopes: u64,
    /// The sum.
    pub spend: Usd,
    /// The number of charges it is the sum of.
    pub paid_events: u64,
}

/// Settled spend of one scope in one period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeriodSpend {
    /// The period's first instant; the Unix epoch for a scope without a period.
    pub period_start: DateTime<Utc>,
    /// The sum.
    pub spend: Usd,
    /// The number of events it is the sum of.
    pub paid_events: u64,
}

/// What an audit needs of a settled event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettledEvent {
    /// The request.
    pub request_id: String,
    /// The instant that decided day and period.
    pub started_at: DateTime<Utc>,
    /// What it costs; `None` when unpriced.
    pub cost: Option<Usd>,
    /// Input tokens.
    pub prompt_tokens: u64,
    /// Output tokens.
    pub completion_tokens: u64,
    /// The charged scopes, in the order of the event.
    pub scopes: Vec<ScopeRef>,
}

/// A walk over all settled events in the byte order of their request ids, a page at a time, so memory is bounded by the
/// page. Events that are settled meanwhile may or may not be seen; none is seen twice.
#[derive(Debug, Clone)]
pub struct SettledScan {
    ledger: Ledger,
    page: u32,
    after: String,
}

impl SettledScan {
    /// The next page; empty at the end. After an error the same page can be asked for again.
    ///
    /// # Errors
    ///
    /// When the database cannot be read.
    pub async fn next_page(&mut self) -> Result<Vec<SettledEvent>, LedgerError> {
        let rows = sqlx::query_file!("queries/settled_page.sql", self.after, i64::from(self.page))
            .fetch_all(&self.ledger.pool)
            .await
            .map_err(|error| self.ledger.failed("reading settled events", error))?;
        let events = rows
            .into_iter()
            .map(|row| {
                Ok(SettledEvent {
                    cost: row.cost_usd.map(|cost| from_numeric("cost_usd", &cost)).transpose()?,
                    prompt_tokens: counted("prompt_tokens", row.prompt_tokens)?,
                    completion_tokens: counted("completion_tokens", row.completion_tokens)?,
                    scopes: row.scopes.iter().map(|scope| scope_ref(scope)).collect::<Result<_, _>>()?,
                    started_at: row.started_at,
                    request_id: row.request_id,
                })
            })
            .collect::<Result<Vec<_>, LedgerError>>()?;
        if let Some(last) = events.last() {
            self.after.clone_from(&last.request_id);
        }
        Ok(events)
    }
}

/// A walk through the request ids that are settled.
#[derive(Debug)]
pub struct SettledIds {
    ledger: Ledger,
    page: u32,
    after: String,
}

impl SettledIds {
    /// The next page; empty at the end. After an error the same page can be asked for again.
    ///
    /// # Errors
    ///
    /// When the database cannot be read.
    pub async fn next_page(&mut self) -> Result<Vec<String>, LedgerError> {
        let rows = sqlx::query_file!("queries/known_requests_page.sql", self.after, i64::from(self.page))
            .fetch_all(&self.ledger.pool)
            .await
            .map_err(|error| self.ledger.failed("reading settled requests", error))?;
        let ids: Vec<_> = rows.into_iter().map(|row| row.request_id).collect();
        if let Some(last) = ids.last() {
            self.after.clone_from(last);
        }
        Ok(ids)
    }
}

impl Ledger {
    /// Walks through all settled request ids in their order, a page at a time, those of archived months included. The walk
    /// sees what is settled while it goes on where its id comes later.
    #[must_use]
    pub fn settled_ids(&self, page: u32) -> SettledIds {
        SettledIds { ledger: self.clone(), page: page.max(1), after: String::new() }
    }

    /// Counts everything, as of one moment. Reads all events: for reconciliation, not for a dashboard.
    ///
    /// # Errors
    ///
    /// When the database cannot be read.
    pub async fn totals(&self) -> Result<Totals, LedgerError> {
        let row = sqlx::query_file!("queries/totals.sql")
            .fetch_one(&self.pool)
            .await
            .map_err(|error| self.failed("reading totals", error))?;
        Ok(Totals {
            settled_requests: counted("settled_requests", row.settled_requests)?,
            events: counted("events", row.events)?,
            unpriced_events: counted("unpriced_events", row.unpriced_events)?,
            daily_events: counted("daily_events", row.daily_events)?,
            cost_by_events: from_numeric("cost_usd", &row.cost_by_events)?,
            cost_by_days: from_numeric("cost_usd", &row.cost_by_days)?,
        })
    }

    /// Usage by day, organization, provider and model, in this order.
    ///
    /// # Errors
    ///
    /// When the database cannot be read.
    pub async fn daily_usage(&self, range: &UsageRange) -> Result<Vec<DailyUsage>, LedgerError> {
        let organization = range.organization_id.as_deref();
        let rows = sqlx::query_file!("queries/daily_usage.sql", organization, range.from, range.until)
            .fetch_all(&self.pool)
            .await
            .map_err(|error| self.failed("reading daily usage", error))?;
        rows.into_iter()
            .map(|row| {
                Ok(DailyUsage {
                    day: row.day,
                    sums: usage_sums!(row),
                    organization_id: row.organization_id,
                    provider: row.provider,
                    model: row.model,
                })
            })
            .collect()
    }

    /// A walk over all settled events with so many a page (at least 1).
    #[must_use]
    pub fn settled_events(&self, page: u32) -> SettledScan {
        SettledScan { ledger: self.clone(), page: page.max(1), after: String::new() }
    }

    /// Settled spend summed by kind of scope.
    ///
    /// # Errors
    ///
    /// When the database cannot be read.
    pub async fn spend_by_kind(&self) -> Result<Vec<KindSpend>, LedgerError> {
        let rows = sqlx::query_file!("queries/spend_by_kind.sql")
            .fetch_all(&self.pool)
            .await
            .map_err(|error| self.failed("reading spend by kind", error))?;
        rows.into_iter()
            .map(|row| {
                Ok(KindSpend {
                    kind: row.kind,
                    scopes: counted("scopes", row.scopes)?,
                    spend: from_numeric("spend_usd", &row.spend_usd)?,
                    paid_events: counted("paid_events", row.paid_events)?,
                })
            })
            .collect()
    }

    /// Settled spend of one scope by period, oldest first; empty for a scope that was never charged.
    ///
    /// # Errors
    ///
    /// When the database cannot be read.
    pub async fn spend_of(&self, scope: &ScopeRef) -> Result<Vec<PeriodSpend>, LedgerError> {
        let rows = sqlx::query_file!("queries/spend_of_scope.sql", scope.kind(), scope.id())
            .fetch_all(&self.pool)
            .await
            .map_err(|error| self.failed("reading a scope's spend", error))?;
        rows.into_iter()
            .map(|row| {
                Ok(PeriodSpend {
                    period_start: row.period_start,
                    spend: from_numeric("spend_usd", &row.spend_usd)?,
                    paid_events: counted("paid_events", row.paid_events)?,
                })
            })
            .collect()
    }
}

fn scope_ref(text: &str) -> Result<ScopeRef, LedgerError> {
    text.parse().map_err(|_| LedgerError::Unreadable { column: "scopes", value: text.to_owned() })
}
