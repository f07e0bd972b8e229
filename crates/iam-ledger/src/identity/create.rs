//! Writing identities.

use super::{MAX_RATE_LIMIT, NewIdentity};
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
}

impl<'a> Columns<'a> {
    fn of(identities: &'a [NewIdentity]) -> Result<Self, LedgerError> {
        let mut columns = Self::default();
        for identity in identities {
            identity.check_owners()?;
            columns.kinds.push(identity.kind.as_str());
            columns.ids.push(&identity.id);
            columns.names.push(&identity.name);
            columns.organizations.push(identity.owners.organization_id.as_deref());
            columns.teams.push(identity.owners.team_id.as_deref());
            columns.projects.push(identity.owners.project_id.as_deref());
            columns.users.push(identity.owners.user_id.as_deref());
            columns.rpm_limits.push(identity.stored_limit("rpm", identity.limits.rpm)?);
            columns.tpm_limits.push(identity.stored_limit("tpm", identity.limits.tpm)?);
            let budget = identity.budget.amount.map(|amount| to_numeric("a budget", amount));
            columns.budgets.push(budget.transpose()?);
            columns.periods.push(identity.budget.period.as_str());
            columns.time_zones.push(&identity.budget.time_zone);
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

    /// Creates identities of any kinds, in any order, all or none, with one statement however many there are.
    ///
    /// # Errors
    ///
    /// [`LedgerError::Identity`] or [`LedgerError::OutOfRange`] before the database is asked;
    /// [`LedgerError::Query`] when it refuses: an id that exists or breaks the rule for ids, an owner that does not exist
    /// or belongs to another organization, an unknown time zone. [`LedgerError::constraint`] names which.
    pub async fn create_all(&self, identities: &[NewIdentity]) -> Result<(), LedgerError> {
        if identities.is_empty() {
            return Ok(());
        }
        let columns = Columns::of(identities)?;
        sqlx::query_file!(
            "queries/create_identities.sql",
            &columns.kinds as &[&str],
            &columns.ids as &[&str],
            &columns.names as &[&str],
            &columns.organizations as &[Option<&str>],
            &columns.teams as &[Option<&str>],
            &columns.projects as &[Option<&str>],
            &columns.users as &[Option<&str>],
            &columns.rpm_limits as &[Option<i64>],
            &columns.tpm_limits as &[Option<i64>],
            &columns.budgets as &[Option<String>],
            &columns.periods as &[&str],
            &columns.time_zones as &[&str],
        )
        .execute(&self.pool)
        .await
        .map_err(|error| self.failed("creating identities", error))?;
        Ok(())
    }
}

impl NewIdentity {
    fn stored_limit(&self, dimension: &str, limit: Option<u64>) -> Result<Option<i64>, LedgerError> {
        let fits = |limit: u64| i64::try_from(limit).ok().filter(|_| limit <= MAX_RATE_LIMIT);
        limit
            .map(|limit| {
                fits(limit).ok_or_else(|| {
                    self.refused(format!("{dimension} limit {limit}; at most {MAX_RATE_LIMIT} is allowed"))
                })
            })
            .transpose()
    }
}

#[cfg(test)]
mod tests {
    use rate_plan::Limits;

    use super::*;

    #[test]
    fn a_limit_above_the_bound_is_refused_with_the_bound() {
        let limits = Limits { rpm: Some(MAX_RATE_LIMIT + 1), tpm: None };
        let identity = [NewIdentity::organization("o", "").with_limits(limits)];
        let error = Columns::of(&identity).err().unwrap().to_string();
        assert_eq!(error, "organization \"o\": rpm limit 2147483648; at most 2147483647 is allowed");
    }
}
