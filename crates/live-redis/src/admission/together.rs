//! Which asks one call decides.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use rate_plan::{Limits, RatePlan, RateTree};

/// Asks that one call decides as each would be decided alone: of one version of one tree, however its nodes are listed; or of
/// any flat lists that give no scope two limits, since flat scopes hold nothing for each other.
#[derive(Default)]
pub(super) struct Together {
    first: Option<Arc<RateTree>>,
    hasher: RandomState,
    /// The limits of flat scopes by the scope's hash. Two scopes with one hash and unlike limits are merely not taken together.
    flat: HashMap<u64, Limits>,
}

impl Together {
    /// Takes one more plan in, or says that it does not fit those that were taken.
    pub(super) fn takes_plan(&mut self, plan: &RatePlan) -> bool {
        let tree = plan.tree();
        let first = self.first.get_or_insert_with(|| Arc::clone(tree));
        if first.fingerprint() != tree.fingerprint() {
            return false;
        }
        if !tree.is_flat() {
            return true;
        }
        let hash =
            |&node: &usize| (self.hasher.hash_one(&tree.nodes()[node].scope), tree.nodes()[node].limits);
        let scopes = plan.path().as_slice();
        let fits = scopes
            .iter()
            .map(hash)
            .all(|(scope, limits)| self.flat.get(&scope).is_none_or(|taken| *taken == limits));
        if fits {
            self.flat.extend(scopes.iter().map(hash));
        }
        fits
    }
}
