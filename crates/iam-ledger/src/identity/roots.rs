//! The billing roots that a write touches: what is locked, and what is checked.

use sqlx::PgConnection;

use super::{NewIdentity, ScopeKind};
use crate::LedgerError;

/// Billing roots, sorted, none twice.
#[derive(Debug, Default)]
pub(crate) struct Roots {
    pub(crate) organizations: Vec<String>,
    /// Users without an organization.
    pub(crate) users: Vec<String>,
}

impl Roots {
    /// Those above, or among, identities that pass [`NewIdentity::check`].
    pub(super) fn of(identities: &[NewIdentity]) -> Self {
        let mut roots = Self::default();
        for identity in identities {
            let owners = &identity.owners;
            match (&owners.organization_id, identity.kind) {
                (Some(organization), _) => roots.organizations.push(organization.clone()),
                (None, ScopeKind::Organization) => roots.organizations.push(identity.id.clone()),
                (None, ScopeKind::User) => roots.users.push(identity.id.clone()),
                (None, _) => roots.users.extend(owners.user_id.clone()),
            }
        }
        for ids in [&mut roots.organizations, &mut roots.users] {
            ids.sort_unstable();
            ids.dedup();
        }
        roots
    }

    /// The one above, or of, an identity that exists.
    pub(super) async fn of_existing(
        connection: &mut PgConnection,
        kind: ScopeKind,
        id: &str,
    ) -> Result<Self, LedgerError> {
        let row = sqlx::query_file!("queries/billing_root.sql", kind.as_str(), id)
            .fetch_optional(connection)
            .await
            .map_err(LedgerError::query("looking for a billing root"))?
            .ok_or_else(|| LedgerError::NotFound { kind, id: id.to_owned() })?;
        Ok(if row.kind == ScopeKind::User.as_str() {
            Self { organizations: Vec::new(), users: vec![row.id] }
        } else {
            Self { organizations: vec![row.id], users: Vec::new() }
        })
    }

    /// Waits until no other writer is below these roots, and keeps others out until the transaction ends.
    pub(super) async fn lock(&self, connection: &mut PgConnection) -> Result<(), LedgerError> {
        sqlx::query_file!(
            "queries/lock_roots.sql",
            &self.organizations as &[String],
            &self.users as &[String]
        )
        .fetch_all(connection)
        .await
        .map(drop)
        .map_err(LedgerError::query("waiting for other writers of an organization"))
    }
}
