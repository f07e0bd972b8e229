//! Writing new identities.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;

use super::write::{Subject, Write};
use super::{NewIdentity, ScopeKind};
use crate::money::to_numeric;
use crate::{Ledger, LedgerError};

/// One array a column, as the statement takes them.
#[derive(Default)]
struct Columns<'a> {
    kinds: Vec<&'static str>,
    ids: Vec<&'a str>,
    names: Vec<&'a str>,
    organizations: Vec<Option<&'a str>>,
    teams: Vec<Option<&'a str>>,
    projects: Vec<Option<&'a str>>,
    users: Vec<Option<&'a str>>,
    rpm_limits: Vec<Option<i64>>,
    tpm_limits: Vec<Option<i64>>,
    budgets: Vec<Option<String>>,
    periods: Vec<&'static str>,
    time_zones: Vec<&'a str>,
    secret_hmacs: Vec<Option<&'a [u8]>>,
    /// Keys that name a team beside another owner.
    placed_keys: Vec<&'a str>,
}

impl<'a> Columns<'a> {
    fn of(identities: &'a [NewIdentity], secret_hmac: Option<&'a [u8]>) -> Result<Self, LedgerError> {
        let mut columns = Self::default();
        for identity in identities {
            identity.check()?;
            let owners = &identity.owners;
            columns.kinds.push(identity.kind.as_str());
            columns.ids.push(&identity.id);
            columns.names.push(&identity.name);
            columns.organizations.push(owners.organization_id.as_deref());
            columns.teams.push(owners.team_id.as_deref());
            columns.projects.push(owners.project_id.as_deref());
            columns.users.push(owners.user_id.as_deref());
            columns.rpm_limits.push(stored_limit(identity.limits.rpm)?);
            columns.tpm_limits.push(stored_limit(identity.limits.tpm)?);
            let budget = identity.budget.amount.map(|amount| to_numeric("a budget", amount));
            columns.budgets.push(budget.transpose()?);
            columns.periods.push(identity.budget.period.as_str());
            columns.time_zones.push(&identity.budget.time_zone);
            columns.secret_hmacs.push(secret_hmac);
            if owners.team_id.is_some() && (owners.user_id.is_some() || owners.project_id.is_some()) {
                columns.placed_keys.push(&identity.id);
            }
        }
        Ok(columns)
    }
}

impl Ledger {
    /// Creates one identity.
    ///
    /// # Errors
    ///
    /// Those of [`Ledger::create_all`].
    pub async fn create(&self, identity: &NewIdentity) -> Result<(), LedgerError> {
        self.create_all(std::slice::from_ref(identity)).await
    }

    /// Creates identities of any kinds, in any order, all or none, with one statement however many there are. Keys that
    /// are made so have no secret yet: nobody can use them.
    ///
    /// Writers below one organization take turns; writers below different ones do not wait for each other. What is
    /// allocated is checked once for all organizations together, budgets in the periods that the server's clock is in.
    ///
    /// # Errors
    ///
    /// Nothing was written. [`LedgerError::Identity`] before the database is asked: an owner, id, name, limit, budget or
    /// name of a time zone that breaks a rule; also for a key that names another team than its user's or
    /// project's. [`LedgerError::OverAllocated`] when a scope would have more allocated below it than it has.
    /// [`LedgerError::TimeZone`] for one that PostgreSQL does not know. [`LedgerError::Query`] when the database refuses: an
    /// id that exists, an owner that does not exist or belongs to another organization;
    /// [`LedgerError::constraint`] names which.
    /// [`LedgerError::OutcomeUnknown`] is the exception: all or nothing was written, and reading tells.
    pub async fn create_all(&self, identities: &[NewIdentity]) -> Result<(), LedgerError> {
        self.create_with(identities, None, None).await
    }

    /// [`Ledger::create_all`] with budgets compared in the periods that `now` is in.
    ///
    /// # Errors
    ///
    /// Those of [`Ledger::create_all`].
    pub async fn create_all_at(
        &self,
        identities: &[NewIdentity],
        now: DateTime<Utc>,
    ) -> Result<(), LedgerError> {
        self.create_with(identities, None, Some(now)).await
    }

    /// The HMAC, if there is one, is that of the only identity, a key.
    pub(crate) async fn create_with(
        &self,
        identities: &[NewIdentity],
        secret_hmac: Option<&[u8]>,
        now: Option<DateTime<Utc>>,
    ) -> Result<(), LedgerError> {
        if identities.is_empty() {
            return Ok(());
        }
        let columns = Columns::of(identities, secret_hmac)?;
        let bounded = |identity: &NewIdentity| {
            identity.limits.rpm.is_some() || identity.limits.tpm.is_some() || identity.budget.amount.is_some()
        };
        let allocates = identities.iter().any(bounded);
        self.write_identities(Subject::New(identities), allocates, now, &columns).await
    }
}

impl Write for Columns<'_> {
    async fn apply(&self, connection: &mut PgConnection) -> Result<(), LedgerError> {
        sqlx::query_file!(
            "queries/create_identities.sql",
            &self.kinds as &[&str],
            &self.ids as &[&str],
            &self.names as &[&str],
            &self.organizations as &[Option<&str>],
            &self.teams as &[Option<&str>],
            &self.projects as &[Option<&str>],
            &self.users as &[Option<&str>],
            &self.rpm_limits as &[Option<i64>],
            &self.tpm_limits as &[Option<i64>],
            &self.budgets as &[Option<String>],
            &self.periods as &[&str],
            &self.time_zones as &[&str],
            &self.secret_hmacs as &[Option<&[u8]>],
        )
        .execute(&mut *connection)
        .await
        .map_err(LedgerError::query("creating identities"))?;
        if self.placed_keys.is_empty() {
            return Ok(());
        }
        let misplaced = sqlx::query_file!("queries/misplaced_keys.sql", &self.placed_keys as &[&str])
            .fetch_optional(connection)
            .await
            .map_err(LedgerError::query("comparing teams of keys"))?;
        match misplaced {
            None => Ok(()),
            Some(row) => Err(super::check::refused(
                ScopeKind::Key,
                &row.id,
                format!(
                    "names team {:?}, which is not that of its {} {:?}",
                    row.team_id, row.owner_kind, row.owner_id
                ),
            )),
        }
    }
}

pub(super) fn stored_limit(limit: Option<u64>) -> Result<Option<i64>, LedgerError> {
    let too_large = |limit: u64| LedgerError::OutOfRange {
        what: "a limit",
        value: limit.to_string(),
        bound: super::MAX_RATE_LIMIT.to_string(),
    };
    limit.map(|limit| i64::try_from(limit).map_err(|_| too_large(limit))).transpose()
}
