//! A tenant file: the identities that there shall be.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use iam_ledger::{Budget, NewIdentity, Owners, ScopeKind};
use rate_plan::Limits;
use spend_queue::ScopeRef;
use thiserror::Error;
use toml::{Table, Value};

use super::KINDS;
use super::entry::{Entry, EntryError, Place};

/// Why a file says nothing. Nothing was written; a retry cannot help.
#[derive(Debug, Error)]
pub(crate) enum TenantFileError {
    /// It cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is no TOML.
    #[error("{}, line {line}: {problem}", path.display())]
    Syntax {
        /// Which file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// What the parser says.
        problem: String,
    },
    /// A section that is none.
    #[error(
        "unknown section {0:?}; there are [[organizations]], [[teams]], [[projects]], [[users]], [[keys]]"
    )]
    Section(String),
    /// A section whose entries are no tables.
    #[error("section {0:?} is to be written as [[{0}]], one for each entry")]
    Form(&'static str),
    /// An entry that cannot be.
    #[error(transparent)]
    Entry(#[from] EntryError),
}

/// One identity that there shall be.
pub(super) struct Wanted {
    pub(super) place: Place,
    pub(super) identity: NewIdentity,
}

/// The section of a kind.
pub(super) const fn section(kind: ScopeKind) -> &'static str {
    match kind {
        ScopeKind::Organization => "organizations",
        ScopeKind::Team => "teams",
        ScopeKind::Project => "projects",
        ScopeKind::User => "users",
        ScopeKind::Key => "keys",
    }
}

/// The owners that a kind's entries can name.
pub(super) const fn owner_kinds(kind: ScopeKind) -> &'static [ScopeKind] {
    match kind {
        ScopeKind::Organization => &[],
        ScopeKind::Team => &[ScopeKind::Organization],
        ScopeKind::Project | ScopeKind::User => &[ScopeKind::Organization, ScopeKind::Team],
        ScopeKind::Key => &[ScopeKind::Organization, ScopeKind::Team, ScopeKind::Project, ScopeKind::User],
    }
}

/// Reads a file. Owners come before what they own.
pub(super) fn read(path: &Path) -> Result<Vec<Wanted>, TenantFileError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| TenantFileError::Read { path: path.to_owned(), source })?;
    let table = text.parse::<Table>().map_err(|error| TenantFileError::Syntax {
        path: path.to_owned(),
        line: error.span().map_or(1, |span| 1 + text[..span.start].matches('\n').count()),
        problem: error.message().replace('\n', " "),
    })?;
    identities(table)
}

fn identities(mut table: Table) -> Result<Vec<Wanted>, TenantFileError> {
    let (mut wanted, mut seen) = (Vec::new(), HashSet::new());
    for kind in KINDS {
        let section = section(kind);
        let entries = match table.remove(section) {
            None => continue,
            Some(Value::Array(entries)) => entries,
            Some(_) => return Err(TenantFileError::Form(section)),
        };
        for (index, fields) in entries.into_iter().enumerate() {
            let Value::Table(fields) = fields else { return Err(TenantFileError::Form(section)) };
            let one = identity(kind, Entry::new(section, index, fields))?;
            if !seen.insert((kind, one.identity.id.clone())) {
                return Err(one.place.problem("id", "another entry has it").into());
            }
            wanted.push(one);
        }
    }
    match table.into_iter().next() {
        Some((section, _)) => Err(TenantFileError::Section(section)),
        None => Ok(wanted),
    }
}

fn identity(kind: ScopeKind, mut entry: Entry) -> Result<Wanted, EntryError> {
    let place = entry.place().clone();
    let id = entry.text("id")?.ok_or_else(|| place.problem("id", "missing"))?;
    if let Err(error) = ScopeRef::new(kind.as_str(), &*id) {
        return Err(place.problem("id", error));
    }
    let name = entry.name()?;
    let mut owners = Owners::default();
    for owner in owner_kinds(kind) {
        let named = entry.text(owner.as_str())?;
        match owner {
            ScopeKind::Organization => owners.organization_id = named,
            ScopeKind::Team => owners.team_id = named,
            ScopeKind::Project => owners.project_id = named,
            ScopeKind::User => owners.user_id = named,
            // Nothing belongs to a key.
            ScopeKind::Key => {}
        }
    }
    let limits = Limits { rpm: entry.limit("rpm")?, tpm: entry.limit("tpm")? };
    let usual = Budget::default();
    let budget = Budget {
        amount: entry.amount("budget_usd")?,
        period: entry.period()?,
        time_zone: entry.text("budget_time_zone")?.unwrap_or(usual.time_zone),
    };
    entry.finish()?;
    Ok(Wanted { place, identity: NewIdentity { kind, id, name, owners, limits, budget } })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Wanted>, String> {
        identities(text.parse().unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn sections_may_come_in_any_order_and_owners_come_first() {
        let wanted = read(
            "[[keys]]\nid = 'k'\norganization = 'o'\nrpm = 5\n\
             [[teams]]\nid = 't'\norganization = 'o'\n\
             [[organizations]]\nid = 'o'\nname = 'Acme'\nbudget_usd = '5'\nbudget_period = 'daily'\n",
        )
        .unwrap();
        let kinds: Vec<_> = wanted.iter().map(|one| one.identity.kind).collect();
        assert_eq!(kinds, [ScopeKind::Organization, ScopeKind::Team, ScopeKind::Key]);
        assert_eq!(wanted[0].identity.budget.amount, Some("5".parse().unwrap()));
        assert_eq!(wanted[2].identity.limits, Limits { rpm: Some(5), tpm: None });
    }

    #[test]
    fn what_is_no_tenant_file_is_refused_by_name() {
        for (text, message) in [
            ("[[tenants]]\nid = 'x'", "unknown section \"tenants\"; there are [[organizations]],"),
            ("[teams]\nid = 'x'", "section \"teams\" is to be written as [[teams]]"),
            ("teams = [1]", "section \"teams\" is to be written as [[teams]]"),
            ("[[teams]]\nname = 'x'", "teams number 1, field id: missing"),
            ("[[teams]]\nid = ''", "teams \"\", field id: scope id "),
            (
                "[[teams]]\nid = 'x'\nproject = 'p'",
                "teams \"x\", field project: unknown; there are id, name, organization, rpm",
            ),
            (
                "[[organizations]]\nid = 'x'\norganization = 'o'",
                "organizations \"x\", field organization: unknown",
            ),
            ("[[users]]\nid = 'x'\n[[users]]\nid = 'x'", "users \"x\", field id: another entry has it"),
        ] {
            let error = read(text).err().unwrap();
            assert!(error.starts_with(message), "{error}");
            assert!(!error.contains('\n'));
        }
    }
}
