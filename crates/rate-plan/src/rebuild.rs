//! Incremental state from counters.

use alloc::vec::Vec;

use crate::{Dimension, NodeWindow, RateTree, Usage};

/// The incremental state of every node of a tree, from what each has used in the minute: O(nodes), bottom up.
///
/// This is what a change of configuration asks for: usage stays with its scope, `released` is computed anew. A node
/// without usage below it has released nothing, so whoever keeps windows sparsely need only look at the nodes that
/// were touched in the minute and at their ancestors.
#[must_use]
pub fn rebuild(tree: &RateTree, used: impl Fn(usize) -> Usage) -> Vec<NodeWindow> {
    let fresh = |node| NodeWindow { used: used(node), released: Usage::default() };
    let mut windows: Vec<NodeWindow> = (0..tree.len()).map(fresh).collect();
    for (index, node) in tree.bottom_up().map(|index| (index, &tree.nodes()[index])) {
        let Some(parent) = node.parent else { continue };
        let NodeWindow { used, released } = windows[index];
        for dimension in Dimension::ALL {
            // By how much R has shrunk: min(L, u) where it began as L, or what was released where it began as S0.
            let shrunk = match node.limits.get(dimension) {
                Some(limit) => limit.min(used.get(dimension)),
                None => released.get(dimension),
            };
            *windows[parent].released.get_mut(dimension) += shrunk;
        }
    }
    windows
}
