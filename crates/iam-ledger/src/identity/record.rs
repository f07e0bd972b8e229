//! Reading identities.

use chrono::{DateTime, Utc};
use rate_plan::Limits;

use super::check::check_id;
use super::{Budget, BudgetPeriod, Owners, ScopeKind};
use crate::money::from_numeric;
use crate::{Ledger, LedgerError};

/// An identity as it is stored. Of a key's secret nothing can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct IdentityRecord {
    /// What it is.
    pub kind: ScopeKind,
    /// Its stable id.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// Whom it belongs to.
    pub owners: Owners,
    /// Per minute. `None`: shared. `Some(0)`: nothing passes.
    pub limits: Limits,
    /// What it may spend.
    pub budget: Budget,
    /// Whether it is refused whatever its limits, and everything below it.
    pub blocked: bool,
    /// When it was created, by the server's clock.
    pub created_at: DateTime<Utc>,
}

impl Ledger {
    /// One identity.
    ///
    /// # Errors
    ///
    /// [`LedgerError::NotFound`]; [`LedgerError::Identity`] for an id that none can have; [`LedgerError::Query`] when the
    /// database cannot be read.
    pub async fn identity(&self, kind: ScopeKind, id: &str) -> Result<IdentityRecord, LedgerError> {
        check_id(kind, id)?;
        let row = sqlx::query_file!("queries/read_identity.sql", kind.as_str(), id)
            .fetch_optional(&self.pool)
            .await
            .map_err(|error| self.failed("reading an identity", error))?
            .ok_or_else(|| LedgerError::NotFound { kind, id: id.to_owned() })?;
        let amount = row.budget_usd.as_deref().map(|text| from_numeric("budget_usd", text)).transpose()?;
        let period = BudgetPeriod::from_word(&row.budget_period).ok_or_else(|| LedgerError::Unreadable {
            column: "budget_period",
            value: row.budget_period.clone(),
        })?;
        Ok(IdentityRecord {
            kind,
            id: id.to_owned(),
            name: row.name,
            owners: Owners {
                organization_id: row.organization_id,
                team_id: row.team_id,
                project_id: row.project_id,
                user_id: row.user_id,
            },
            limits: Limits { rpm: read_limit(row.rpm_limit)?, tpm: read_limit(row.tpm_limit)? },
            budget: Budget { amount, period, time_zone: row.budget_time_zone },
            blocked: row.blocked,
            created_at: row.created_at,
        })
    }
}

/// A stored limit.
pub(crate) fn read_limit(limit: Option<i64>) -> Result<Option<u64>, LedgerError> {
    let unreadable = |limit: i64| LedgerError::Unreadable { column: "limit", value: limit.to_string() };
    limit.map(|limit| u64::try_from(limit).map_err(|_| unreadable(limit))).transpose()
}
