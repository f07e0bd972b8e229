//! Entering the tenants of a run into the ledger, and reading their limits back as a gateway does.

use std::collections::HashMap;
use std::sync::Arc;

use iam_ledger::{Ledger, LedgerError, NewIdentity, Owners, ScopeKind};
use rate_plan::{PathError, RateTree};
use thiserror::Error;

use crate::tenants::{Organization, Tenants};

/// One organization's rate tree, with the path of each of its keys.
#[derive(Clone, Debug)]
pub struct Enrolled {
    /// The tree, as the ledger gave it.
    pub tree: Arc<RateTree>,
    /// Paths by the key's place in [`Organization::tenants`].
    pub paths: HashMap<usize, rate_plan::Path>,
}

/// Tenants that could not be entered.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EnrolError {
    /// The ledger refused or could not be reached.
    #[error("entering the tenants into the ledger: {0}")]
    Ledger(#[from] LedgerError),
    /// The tree that the ledger gives is not the one that was entered.
    #[error("the ledger gives another tree for {organization} than was entered: {reason}")]
    OtherTree {
        /// The organization.
        organization: String,
        /// What differs.
        reason: String,
    },
    /// A path that the tree does not have.
    #[error("the ledger's tree: {0}")]
    Path(#[from] PathError),
}

/// Creates every scope, in one statement, then loads one tree for each organization.
///
/// # Errors
///
/// [`EnrolError`]; when creating failed, nothing was created.
pub async fn enrol(ledger: &Ledger, tenants: &Tenants) -> Result<Vec<Enrolled>, EnrolError> {
    let identities: Vec<NewIdentity> = tenants.organizations.iter().flat_map(identities).collect();
    ledger.create_all(&identities).await?;
    let mut enrolled = Vec::with_capacity(tenants.organizations.len());
    for organization in &tenants.organizations {
        let tree = ledger.rate_tree(organization.id()).await?;
        enrolled.push(Enrolled { paths: paths(organization, &tree)?, tree: Arc::new(tree) });
    }
    Ok(enrolled)
}

fn identities(organization: &Organization) -> impl Iterator<Item = NewIdentity> {
    organization.tenants.iter().enumerate().map(|(place, tenant)| {
        let owner = |kind| {
            organization.path(place).skip(1).find(|above| above.kind == kind).map(|above| above.id.clone())
        };
        NewIdentity {
            kind: tenant.kind,
            id: tenant.id.clone(),
            name: tenant.id.clone(),
            owners: Owners {
                organization_id: owner(ScopeKind::Organization),
                team_id: owner(ScopeKind::Team),
                project_id: owner(ScopeKind::Project),
                user_id: owner(ScopeKind::User),
            },
            limits: tenant.limits,
            budget: iam_ledger::Budget::default(),
        }
    })
}

/// The keys' paths, after a check that the tree has the same nodes, limits and parents: otherwise a run would test
/// other limits than its report says.
fn paths(
    organization: &Organization,
    tree: &RateTree,
) -> Result<HashMap<usize, rate_plan::Path>, EnrolError> {
    let other = |reason: String| EnrolError::OtherTree { organization: organization.id().to_owned(), reason };
    if tree.len() != organization.tenants.len() {
        return Err(other(format!("{} nodes instead of {}", tree.len(), organization.tenants.len())));
    }
    let mut paths = HashMap::new();
    for (place, tenant) in organization.tenants.iter().enumerate() {
        let kind = tenant.kind.as_str();
        let node = tree.find(kind, &tenant.id).ok_or_else(|| other(format!("no {kind} {}", tenant.id)))?;
        let path = tree.path_from(node)?;
        let ids = path.as_slice().iter().map(|&node| tree.nodes()[node].scope.id());
        if tree.nodes()[node].limits != tenant.limits || !ids.eq(organization.path(place).map(|it| &*it.id)) {
            return Err(other(format!("{kind} {} has other limits or another parent", tenant.id)));
        }
        if tenant.kind == ScopeKind::Key {
            paths.insert(place, path);
        }
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unaltered_tree_gives_a_path_for_each_key() {
        let tenants = Tenants::new(1, "run");
        for organization in &tenants.organizations {
            let paths = paths(organization, &organization.rate_tree().unwrap()).unwrap();
            let keys = organization.tenants.iter().filter(|tenant| tenant.kind == ScopeKind::Key).count();
            assert_eq!(paths.len(), keys);
            assert!(paths.values().all(|path| path.len() == 4));
        }
    }

    #[test]
    fn a_tree_with_other_limits_is_refused() {
        let organization = &Tenants::new(1, "run").organizations[0];
        let limits = rate_plan::Limits { rpm: Some(1), tpm: Some(1) };
        let tree = organization.rate_tree().unwrap().with_limits(3, limits).unwrap();
        let error = paths(organization, &tree).unwrap_err().to_string();
        assert!(error.contains("has other limits"), "{error}");
    }
}
