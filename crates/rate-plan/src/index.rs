//! Finding a node by its scope.

use alloc::{boxed::Box, vec::Vec};
use core::cmp::Ordering;

use crate::{Node, Scope};

/// Node indices sorted by kind, then id, byte for byte.
///
/// Sorted rather than hashed: ids can come from tenants, and a fixed hash would let them choose collisions.
#[derive(Clone, Debug)]
pub(crate) struct ScopeIndex(Box<[usize]>);

/// Two nodes with one scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Duplicate {
    pub(crate) first: usize,
    pub(crate) later: usize,
}

impl ScopeIndex {
    /// Sorts the nodes in O(n log n), or names two that share a scope.
    pub(crate) fn new(nodes: &[Node]) -> Result<Self, Duplicate> {
        let mut sorted: Vec<usize> = (0..nodes.len()).collect();
        sorted.sort_unstable_by(|&a, &b| nodes[a].scope.cmp(&nodes[b].scope).then(a.cmp(&b)));
        match sorted.windows(2).find(|pair| nodes[pair[0]].scope == nodes[pair[1]].scope) {
            Some(pair) => Err(Duplicate { first: pair[0], later: pair[1] }),
            None => Ok(Self(sorted.into())),
        }
    }

    /// Every index once, by rising scope.
    pub(crate) fn in_scope_order(&self) -> &[usize] {
        &self.0
    }

    /// The node with this scope, in O(log n). `nodes` are those that the index was made of.
    pub(crate) fn find(&self, nodes: &[Node], kind: &str, id: &str) -> Option<usize> {
        let found = self.0.binary_search_by(|&i| order(&nodes[i].scope, kind, id)).ok()?;
        self.0.get(found).copied()
    }
}

fn order(scope: &Scope, kind: &str, id: &str) -> Ordering {
    scope.kind().cmp(kind).then_with(|| scope.id().cmp(id))
}
