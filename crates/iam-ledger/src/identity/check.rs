//! What can be refused without asking the database.

use rate_plan::{Dimension, Limits};
use spend_queue::{ScopeRef, ScopeRefError, Usd};

use super::{MAX_BUDGET, MAX_RATE_LIMIT, NewIdentity, Owners, ScopeKind};
use crate::LedgerError;

/// The longest name, in bytes of UTF-8.
pub const MAX_NAME_BYTES: usize = 256;
/// The longest name of a time zone, in bytes; the longest IANA name has 32.
const MAX_TIME_ZONE_BYTES: usize = 64;
/// How much of a refused text an error repeats.
const EXCERPT_CHARS: usize = 40;

impl NewIdentity {
    /// Everything but what only the database knows.
    pub(crate) fn check(&self) -> Result<(), LedgerError> {
        check_id(self.kind, &self.id)?;
        let refuse = |problem: String| refused(self.kind, &self.id, problem);
        self.check_owners()?;
        let Owners { organization_id, team_id, project_id, user_id } = &self.owners;
        for (kind, owner) in [
            (ScopeKind::Organization, organization_id),
            (ScopeKind::Team, team_id),
            (ScopeKind::Project, project_id),
            (ScopeKind::User, user_id),
        ] {
            if let Some(owner) = owner {
                check_id(kind, owner)?;
            }
        }
        check_name(&self.name).map_err(refuse)?;
        check_limits(self.limits).map_err(refuse)?;
        self.budget.amount.map_or(Ok(()), check_budget).map_err(refuse)?;
        check_time_zone(&self.budget.time_zone).map_err(refuse)
    }

    /// An owner that the kind's table has no column for would be dropped in silence.
    pub(super) fn check_owners(&self) -> Result<(), LedgerError> {
        let Owners { organization_id, team_id, project_id, user_id } = &self.owners;
        let problem = match self.kind {
            ScopeKind::Organization if organization_id.is_some() || team_id.is_some() => "has no owner",
            ScopeKind::Team | ScopeKind::Project if organization_id.is_none() => "needs an organization",
            ScopeKind::Team if team_id.is_some() => "cannot belong to a team",
            ScopeKind::Key if organization_id.is_none() && user_id.is_none() => {
                "needs an organization or a user"
            }
            kind if kind != ScopeKind::Key && (project_id.is_some() || user_id.is_some()) => {
                "cannot belong to a project or a user; only a key can"
            }
            _ => return Ok(()),
        };
        Err(refused(self.kind, &self.id, problem.to_owned()))
    }
}

/// An id as every part of the system takes it.
pub(crate) fn check_id(kind: ScopeKind, id: &str) -> Result<(), LedgerError> {
    match ScopeRef::new(kind.as_str(), id) {
        Ok(_) => Ok(()),
        Err(ScopeRefError::Id(problem)) => Err(refused(kind, id, format!("its id {problem}"))),
        Err(error) => Err(refused(kind, id, error.to_string())),
    }
}

pub(crate) fn refused(kind: ScopeKind, id: &str, problem: String) -> LedgerError {
    LedgerError::Identity { kind, id: id.chars().take(EXCERPT_CHARS).collect(), problem }
}

pub(super) fn check_name(name: &str) -> Result<(), String> {
    if name.len() > MAX_NAME_BYTES {
        return Err(format!("a name of {} bytes; at most {MAX_NAME_BYTES} are allowed", name.len()));
    }
    if name.chars().any(char::is_control) {
        return Err("a name with a control character".to_owned());
    }
    Ok(())
}

pub(super) fn check_limits(limits: Limits) -> Result<(), String> {
    for dimension in Dimension::ALL {
        if let Some(limit) = limits.get(dimension).filter(|limit| *limit > MAX_RATE_LIMIT) {
            return Err(format!("{dimension} limit {limit}; at most {MAX_RATE_LIMIT} is allowed"));
        }
    }
    Ok(())
}

pub(super) fn check_budget(amount: Usd) -> Result<(), String> {
    if amount.is_negative() || amount > MAX_BUDGET {
        return Err(format!("a budget of {amount} USD; 0 to {MAX_BUDGET} USD are allowed"));
    }
    Ok(())
}

/// Whether it names a zone and does not compute one: PostgreSQL reads `UTC+9` by the rule of POSIX, nine hours *west* of Greenwich,
/// and `CET` as an abbreviation. Which names there are, PostgreSQL knows.
pub(super) fn check_time_zone(name: &str) -> Result<(), String> {
    let plain =
        |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphabetic() || b"_-".contains(&b));
    let is_place = name.len() <= MAX_TIME_ZONE_BYTES
        && name.contains('/')
        && name.split('/').all(plain)
        && !name.starts_with('-')
        && !["posix", "right"].iter().any(|copy| name.split('/').next() == Some(copy));
    if name == "UTC" || is_place {
        return Ok(());
    }
    let excerpt: String = name.chars().take(EXCERPT_CHARS).collect();
    Err(format!(
        "time zone {excerpt:?}; UTC or an IANA name of the form Area/Location, such as Europe/Berlin, is accepted: \
         offsets and abbreviations are not, since PostgreSQL reads their signs the other way round"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_that_the_kind_cannot_have_is_refused() {
        for identity in [
            NewIdentity::organization("o", "").of_organization("p"),
            NewIdentity::team("t", ""),
            NewIdentity::team("t", "").of_organization("o").of_team("u"),
            NewIdentity::project("p", "").of_team("t"),
            NewIdentity::project("p", "").of_organization("o").of_user("u"),
            NewIdentity::user("u", "").of_organization("o").of_project("p"),
            NewIdentity::key("k", "").of_team("t"),
        ] {
            let error = identity.check().unwrap_err();
            assert!(
                !error.is_transient() && error.to_string().starts_with(identity.kind.as_str()),
                "{error}"
            );
        }
        assert!(NewIdentity::user("u", "").check().is_ok());
        assert!(NewIdentity::key("k", "").of_user("u").check().is_ok());
    }

    #[test]
    fn a_time_zone_is_a_place_or_utc_and_never_an_offset() {
        for name in [
            "UTC",
            "Europe/Berlin",
            "America/Argentina/Buenos_Aires",
            "America/Port-au-Prince",
            "Etc/UTC",
            "US/Eastern",
            "europe/berlin",
        ] {
            assert_eq!(check_time_zone(name), Ok(()), "{name}");
        }
        for name in [
            "",
            "UTC+9",
            "UTC-9",
            "UTC9",
            "GMT+1",
            "Etc/GMT+9",
            "Foo/Bar+9",
            "Foo/Bar9",
            "<+09>-9",
            "+09:00",
            "-9",
            "9",
            "EST5EDT",
            "CET",
            "EST",
            "utc",
            "localtime",
            "posix/Europe/Berlin",
            "right/Europe/Berlin",
            "Europe/",
            "/Berlin",
            "Europe//Berlin",
            "Europe/Berlin ",
            "Europe/Berlin\n",
            "Europe/B\u{e9}rlin",
            "../etc/passwd",
            ":Europe/Berlin",
        ] {
            let problem = check_time_zone(name).unwrap_err();
            assert!(problem.contains("Area/Location"), "{name}: {problem}");
        }
        assert!(check_time_zone(&format!("A/{}", "b".repeat(64))).is_err());
    }

    #[test]
    fn a_limit_above_the_bound_is_refused_with_the_bound() {
        let limits = Limits { rpm: Some(MAX_RATE_LIMIT + 1), tpm: None };
        let error = NewIdentity::organization("o", "").with_limits(limits).check().unwrap_err();
        assert_eq!(
            error.to_string(),
            "organization \"o\": rpm limit 2147483648; at most 2147483647 is allowed"
        );
    }

    #[test]
    fn a_long_id_is_repeated_in_part_only() {
        let error = NewIdentity::organization("x".repeat(1 << 20), "").check().unwrap_err();
        assert!(error.to_string().len() < 200, "{error}");
    }
}
