//! Changing identities.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;

use super::check::check_id;
use super::create::stored_limit;
use super::write::{Subject, Write};
use super::{BudgetPeriod, IdentityPatch, ScopeKind};
use crate::money::to_numeric;
use crate::{Ledger, LedgerError};

/// A patch as the statement takes it.
struct Update<'a> {
    kind: ScopeKind,
    id: &'a str,
    patch: &'a IdentityPatch,
    rpm: Option<i64>,
    tpm: Option<i64>,
    budget: Option<String>,
}

impl Ledger {
    /// Changes some fields of one identity, at once and all or none; everything else stays. Writers below one
    /// organization take turns. Budgets are compared in the periods that the server's clock is in.
    ///
    /// # Errors
    ///
    /// [`LedgerError::NotFound`]; [`LedgerError::Identity`] before the database is asked; [`LedgerError::OverAllocated`]
    /// when more would be allocated below a scope than it has, be it that a child gets more or that the scope gets
    /// less; [`LedgerError::TimeZone`]; [`LedgerError::Query`] when the database fails. Nothing was written then, except
    /// perhaps for [`LedgerError::OutcomeUnknown`]; the same update may be made again.
    pub async fn update(&self, kind: ScopeKind, id: &str, patch: &IdentityPatch) -> Result<(), LedgerError> {
        self.update_with(kind, id, patch, None).await
    }

    /// [`Ledger::update`] with budgets compared in the periods that `now` is in.
    ///
    /// # Errors
    ///
    /// Those of [`Ledger::update`].
    pub async fn update_at(
        &self,
        kind: ScopeKind,
        id: &str,
        patch: &IdentityPatch,
        now: DateTime<Utc>,
    ) -> Result<(), LedgerError> {
        self.update_with(kind, id, patch, Some(now)).await
    }

    async fn update_with(
        &self,
        kind: ScopeKind,
        id: &str,
        patch: &IdentityPatch,
        now: Option<DateTime<Utc>>,
    ) -> Result<(), LedgerError> {
        check_id(kind, id)?;
        patch.check(kind, id)?;
        let update = Update {
            kind,
            id,
            patch,
            rpm: stored_limit(patch.rpm.value())?,
            tpm: stored_limit(patch.tpm.value())?,
            budget: patch.budget.value().map(|amount| to_numeric("a budget", amount)).transpose()?,
        };
        self.write_identities(Subject::Existing(kind, id), patch.allocates(), now, &update).await
    }
}

impl Write for Update<'_> {
    async fn apply(&self, connection: &mut PgConnection) -> Result<(), LedgerError> {
        let patch = self.patch;
        let row = sqlx::query_file!(
            "queries/update_identity.sql",
            self.kind.as_str(),
            self.id,
            patch.name.as_deref(),
            patch.blocked,
            patch.rpm.is_change(),
            self.rpm,
            patch.tpm.is_change(),
            self.tpm,
            patch.budget.is_change(),
            self.budget.as_deref(),
            patch.period.map(BudgetPeriod::as_str),
            patch.time_zone.as_deref(),
        )
        .fetch_one(connection)
        .await
        .map_err(LedgerError::query("changing an identity"))?;
        if row.found {
            Ok(())
        } else {
            Err(LedgerError::NotFound { kind: self.kind, id: self.id.to_owned() })
        }
    }
}
