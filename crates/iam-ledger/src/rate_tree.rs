//! Reading a billing root's limits as a rate tree.

use std::collections::HashMap;

use rate_plan::{Limits, Node, RateTree, Scope};

use crate::{Ledger, LedgerError, ScopeKind};

/// One row of the `scopes` view.
struct ScopeRow {
    kind: String,
    id: String,
    parent_kind: Option<String>,
    parent_id: Option<String>,
    rpm_limit: Option<i64>,
    tpm_limit: Option<i64>,
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
        let rows = sqlx::query_file_as!(ScopeRow, "queries/organization_scopes.sql", organization_id)
            .fetch_all(&self.pool)
            .await
            .map_err(|error| self.failed("reading an organization's limits", error))?;
        build(rows, ScopeKind::Organization, organization_id)
    }

    /// The rate tree of a user without an organization: the user and the keys below.
    ///
    /// # Errors
    ///
    /// As for [`Ledger::rate_tree`]; a user who has an organization is not found.
    pub async fn user_rate_tree(&self, user_id: &str) -> Result<RateTree, LedgerError> {
        let rows = sqlx::query_file_as!(ScopeRow, "queries/user_scopes.sql", user_id)
            .fetch_all(&self.pool)
            .await
            .map_err(|error| self.failed("reading a user's limits", error))?;
        build(rows, ScopeKind::User, user_id)
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
    let limit = |limit: Option<i64>| {
        limit
            .map(|limit| u64::try_from(limit).map_err(|_| unreadable("limit", &limit.to_string())))
            .transpose()
    };
    let scope = Scope::new(&*row.kind, &*row.id).map_err(|_| unreadable("id", &row.id))?;
    Ok(Node { scope, parent, limits: Limits { rpm: limit(row.rpm_limit)?, tpm: limit(row.tpm_limit)? } })
}

fn unreadable(column: &'static str, value: &str) -> LedgerError {
    LedgerError::Unreadable { column, value: value.to_owned() }
}
