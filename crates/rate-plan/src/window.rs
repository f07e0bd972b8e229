//! One minute of one tree, kept in memory.

use alloc::{collections::BTreeMap, sync::Arc, vec, vec::Vec};

use crate::incremental;
use crate::path_windows::Dense;
use crate::rebuild::rebuild;
use crate::{Adjustment, Decision, Dimension, NodeWindow, RatePlan, RateTree, Scope, Usage, UsageError};

/// The incremental state of every node of a tree in one minute.
///
/// Memory: [`NodeWindow::BYTES`] a node. A decision costs O(path), a change of configuration O(nodes). It knows no
/// clock: whoever owns it says which minute it is.
#[derive(Clone, Debug)]
pub struct Window {
    tree: Arc<RateTree>,
    nodes: Vec<NodeWindow>,
    /// Usage of scopes that earlier configurations had: one that comes back within the minute has not become new.
    elsewhere: BTreeMap<Scope, Usage>,
}

impl Window {
    /// A minute in which nothing has been used yet.
    #[must_use]
    pub fn new(tree: Arc<RateTree>) -> Self {
        let nodes = vec![NodeWindow::default(); tree.len()];
        Self { tree, nodes, elsewhere: BTreeMap::new() }
    }

    /// The tree; plans for this window are made of it.
    #[must_use]
    pub const fn tree(&self) -> &Arc<RateTree> {
        &self.tree
    }

    /// The state of each node, in the tree's order.
    #[must_use]
    pub fn nodes(&self) -> &[NodeWindow] {
        &self.nodes
    }

    /// Answers what [`admit`](Self::admit) would answer, without counting.
    ///
    /// # Errors
    ///
    /// As [`admit`](Self::admit).
    pub fn check(&self, plan: &RatePlan, estimate: i64) -> Result<Decision, UsageError> {
        self.require_own(plan)?;
        incremental::check_in(plan, &Dense(&self.nodes), estimate)
    }

    /// Decides one request and, if it is admitted, counts it on its path. All or nothing.
    ///
    /// # Errors
    ///
    /// [`UsageError::ForeignPlan`] for a plan of another tree, and as [`admit_on_path`](crate::admit_on_path).
    /// Nothing has changed.
    pub fn admit(&mut self, plan: &RatePlan, estimate: i64) -> Result<Decision, UsageError> {
        self.require_own(plan)?;
        incremental::admit_in(plan, &mut Dense(&mut self.nodes), estimate)
    }

    /// Corrects what was counted for a plan, on the scopes that it was counted on: O(path) while the tree is the
    /// plan's own, O(nodes) when it has been replaced since. Usage never falls below 0.
    ///
    /// # Errors
    ///
    /// [`UsageError::CounterFull`] when a counter would rise above [`MAX_LIMIT`](crate::MAX_LIMIT); nothing has changed.
    pub fn adjust(&mut self, plan: &RatePlan, change: Adjustment) -> Result<(), UsageError> {
        if self.require_own(plan).is_ok() {
            return incremental::adjust_in(plan, &mut Dense(&mut self.nodes), change);
        }
        let scopes =
            || plan.path().as_slice().iter().map(|&index| (index, &plan.tree().nodes()[index].scope));
        for (index, scope) in scopes() {
            changed(self.used_by(scope), change, index)?;
        }
        for (index, scope) in scopes() {
            let used = changed(self.used_by(scope), change, index)?;
            self.set_used_by(scope, used);
        }
        self.nodes = rebuild(&self.tree, |node| self.nodes[node].used);
        Ok(())
    }

    /// Goes on with another configuration in mid-minute: O(nodes log nodes). Usage stays with its scope; a scope that
    /// the new tree lacks keeps its usage aside for the rest of the minute.
    pub fn rebuild(&mut self, tree: Arc<RateTree>) {
        let mut elsewhere = core::mem::take(&mut self.elsewhere);
        for (node, window) in self.tree.nodes().iter().zip(&self.nodes) {
            if window.used != Usage::default() {
                elsewhere.insert(node.scope.clone(), window.used);
            }
        }
        let used: Vec<Usage> =
            tree.nodes().iter().map(|node| elsewhere.remove(&node.scope).unwrap_or_default()).collect();
        *self = Self { nodes: rebuild(&tree, |node| used[node]), tree, elsewhere };
    }

    /// What a scope has used in the minute, whether or not the tree still has it.
    #[must_use]
    pub fn used_by(&self, scope: &Scope) -> Usage {
        match self.tree.find(scope.kind(), scope.id()) {
            Some(node) => self.nodes[node].used,
            None => self.elsewhere.get(scope).copied().unwrap_or_default(),
        }
    }

    fn set_used_by(&mut self, scope: &Scope, used: Usage) {
        match self.tree.find(scope.kind(), scope.id()) {
            Some(node) => self.nodes[node].used = used,
            None => {
                self.elsewhere.insert(scope.clone(), used);
            }
        }
    }

    fn require_own(&self, plan: &RatePlan) -> Result<(), UsageError> {
        if Arc::ptr_eq(plan.tree(), &self.tree) { Ok(()) } else { Err(UsageError::ForeignPlan) }
    }
}

fn changed(mut used: Usage, change: Adjustment, index: usize) -> Result<Usage, UsageError> {
    for dimension in Dimension::ALL {
        *used.get_mut(dimension) = change.applied(used, dimension, index)?;
    }
    Ok(used)
}
