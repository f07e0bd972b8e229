//! Reading a billing root's limits as a rate tree.

use std::collections::HashMap;

use rate_plan::{Limits, Node, RateTree, Scope};

use crate::identity::{check_id, read_limit};
use crate::{Ledger, LedgerError, ScopeKind};

/// One row of the `scopes` view.
struct ScopeRow {
    kind: String,
    id: String,
    parent_kind: Option<String>,
    parent_id: Option<String>,
    rpm_limit: Option<i64>,
    tpm_limit: Option<i64>,
    version: i64,
}

impl Ledger {
    /// The rate tree of an organization: itself, its teams, projects, users and keys. One query, whose cost is that of the
    /// organization's rows and not of the tables.
    ///
    /// Nodes are ordered by kind, then id, so that the same configuration always gives the same tree.
    ///
    /// # Errors
    ///
    /// [`LedgerError::NotFound`] when there is no such organization; [`LedgerError::Tree`] when it has more nodes than
    /// a rate tree can; [`LedgerError::Query`] when the database cannot be read.
    pub async fn rate_tree(&self, organization_id: &str) -> Result<RateTree, LedgerError> {
        self.versioned_tree(ScopeKind::Organization, organization_id).await.map(|(tree, _)| tree)
    }

    /// The rate tree of a user without an organization: the user and the keys below.
    ///
    /// # Errors
    ///
    /// As for [`Ledger::rate_tree`]; a user who has an organization is not found.
    pub async fn user_rate_tree(&self, user_id: &str) -> Result<RateTree, LedgerError> {
        self.versioned_tree(ScopeKind::User, user_id).await.map(|(tree, _)| tree)
    }

    /// A billing root's tree and the version of the configuration that it is of, from one snapshot. Any other kind is not
    /// found.
    pub(crate) async fn versioned_tree(
        &self,
        kind: ScopeKind,
        id: &str,
    ) -> Result<(RateTree, i64), LedgerError> {
        check_id(kind, id)?;
        let (rows, step) = match kind {
            ScopeKind::Organization => (
                sqlx::query_file_as!(ScopeRow, "queries/organization_scopes.sql", id)
                    .fetch_all(&self.pool)
                    .await,
                "reading an organization's limits",
            ),
            ScopeKind::User => (
                sqlx::query_file_as!(ScopeRow, "queries/user_scopes.sql", id).fetch_all(&self.pool).await,
                "reading a user's limits",
            ),
            _ => return Err(LedgerError::NotFound { kind, id: id.to_owned() }),
        };
        let rows = rows.map_err(|error| self.failed(step, error))?;
        let version = rows.first().map_or(0, |row| row.version);
        Ok((build(rows, kind, id)?, version))
    }
}

fn build(rows: Vec<ScopeRow>, root: ScopeKind, root_id: &str) -> Result<RateTree, LedgerError> {
    let mut rows: Vec<(ScopeKind, ScopeRow)> = rows
        .into_iter()
        .map(|row| {
            ScopeKind::from_word(&row.kind).map(|kind| (kind, row)).ok_or_else(|| unreadable("kind", root_id))
        })
        .collect::<Result<_, _>>()?;
    rows.sort_by(|(left_kind, left), (right_kind, right)| {
        (left_kind, &left.id).cmp(&(right_kind, &right.id))
    });
    if rows.is_empty() {
        return Err(LedgerError::NotFound { kind: root, id: root_id.to_owned() });
    }
    let index: HashMap<(&str, &str), usize> =
        rows.iter().enumerate().map(|(index, (_, row))| ((&*row.kind, &*row.id), index)).collect();
    let nodes = rows.iter().map(|(_, row)| node(row, &index)).collect::<Result<Vec<_>, _>>()?;
    Ok(RateTree::new(nodes)?)
}

fn node(row: &ScopeRow, index: &HashMap<(&str, &str), usize>) -> Result<Node, LedgerError> {
    let parent = match (&row.parent_kind, &row.parent_id) {
        (Some(kind), Some(id)) => {
            // Composite foreign keys make a parent belong to the same organization.
            Some(*index.get(&(&**kind, &**id)).ok_or_else(|| unreadable("parent_id", id))?)
        }
        _ => None,
    };
    let scope = Scope::new(&*row.kind, &*row.id).map_err(|_| unreadable("id", &row.id))?;
    Ok(Node {
        scope,
        parent,
        limits: Limits { rpm: read_limit(row.rpm_limit)?, tpm: read_limit(row.tpm_limit)? },
    })
}

fn unreadable(column: &'static str, value: &str) -> LedgerError {
    LedgerError::Unreadable { column, value: value.to_owned() }
}
