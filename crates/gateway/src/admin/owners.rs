//! Whether owners that entries name exist and belong together, found out before anything is written.

use std::collections::HashMap;

use anyhow::Result;
use iam_ledger::{Ledger, LedgerError, NewIdentity, Owners, ScopeKind};

use super::tenant_file::{Wanted, owner_kinds};

/// Owners of identities, as the file has them or else the ledger.
struct Known<'a> {
    ledger: &'a Ledger,
    owners: HashMap<(ScopeKind, String), Option<Owners>>,
}

/// Checks all entries.
pub(super) async fn check(ledger: &Ledger, wanted: &[Wanted]) -> Result<()> {
    let in_file = wanted
        .iter()
        .map(|Wanted { identity, .. }| ((identity.kind, identity.id.clone()), Some(identity.owners.clone())));
    let mut known = Known { ledger, owners: in_file.collect() };
    for one in wanted {
        required(one)?;
        for kind in owner_kinds(one.identity.kind) {
            known.check(one, *kind).await?;
        }
    }
    Ok(())
}

/// Refuses an entry without an owner that its kind must have.
fn required(Wanted { place, identity }: &Wanted) -> Result<()> {
    let Owners { organization_id, user_id, team_id, project_id } = &identity.owners;
    if organization_id.is_some() {
        return Ok(());
    }
    let problem = match identity.kind {
        ScopeKind::Team | ScopeKind::Project => "missing",
        ScopeKind::Key if user_id.is_none() => "missing; a key has an organization or a user",
        _ if team_id.is_some() || project_id.is_some() => "missing; it is named beside a team or a project",
        _ => return Ok(()),
    };
    Err(place.problem("organization", problem).into())
}

impl Known<'_> {
    async fn check(&mut self, one: &Wanted, kind: ScopeKind) -> Result<()> {
        let Wanted { place, identity } = one;
        let Some(id) = named(identity, kind) else { return Ok(()) };
        let Some(owner) = self.owners(kind, id).await? else {
            let problem = format!("there is no {kind} {id:?}, neither in this file nor in the ledger");
            return Err(place.problem(kind.as_str(), problem).into());
        };
        if kind != ScopeKind::Organization && owner.organization_id != identity.owners.organization_id {
            let problem = match &owner.organization_id {
                Some(organization) => format!("must be {organization:?}, that of its {kind} {id:?}"),
                None => format!("must be absent, as its {kind} {id:?} has none"),
            };
            return Err(place.problem("organization", problem).into());
        }
        Ok(())
    }

    async fn owners(&mut self, kind: ScopeKind, id: &str) -> Result<Option<Owners>, LedgerError> {
        if let Some(known) = self.owners.get(&(kind, id.to_owned())) {
            return Ok(known.clone());
        }
        let found = match self.ledger.identity(kind, id).await {
            Ok(record) => Some(record.owners),
            Err(LedgerError::NotFound { .. } | LedgerError::Identity { .. }) => None,
            Err(error) => return Err(error),
        };
        self.owners.insert((kind, id.to_owned()), found.clone());
        Ok(found)
    }
}

/// The owner of a kind that an identity names.
pub(super) fn named(identity: &NewIdentity, kind: ScopeKind) -> Option<&str> {
    of_kind(&identity.owners, kind)
}

/// The owner of a kind.
pub(super) fn of_kind(owners: &Owners, kind: ScopeKind) -> Option<&str> {
    match kind {
        ScopeKind::Organization => owners.organization_id.as_deref(),
        ScopeKind::Team => owners.team_id.as_deref(),
        ScopeKind::Project => owners.project_id.as_deref(),
        ScopeKind::User => owners.user_id.as_deref(),
        ScopeKind::Key => None,
    }
}
