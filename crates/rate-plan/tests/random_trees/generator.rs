//! Strategies for small trees, usage and requests.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use rate_plan::{Dimension, Limits, MAX_LIMIT, Node, RateTree, Scope, TreeError, Usage};

/// Small enough to collide with one another often; sometimes at the upper bound, where sums grow large.
pub(crate) fn amount() -> impl Strategy<Value = u64> {
    prop_oneof![12 => 0..8_u64, 1 => MAX_LIMIT - 3..=MAX_LIMIT]
}

pub(crate) fn estimate() -> impl Strategy<Value = i64> {
    prop_oneof![12 => -3..8_i64, 1 => amount().prop_map(|amount| i64::try_from(amount).unwrap())]
}

pub(crate) fn usage(nodes: usize) -> impl Strategy<Value = Vec<Usage>> {
    vec((amount(), amount()).prop_map(|(rpm, tpm)| Usage { rpm, tpm }), nodes)
}

/// A forest of 1 to 9 nodes whose parents stand before or after them.
pub(crate) fn tree() -> impl Strategy<Value = Arc<RateTree>> {
    (1..10_usize).prop_flat_map(|len| {
        let above = option::weighted(0.85, any::<prop::sample::Index>());
        let limits = (option::of(amount()), option::of(amount()));
        let order = Just((0..len).collect::<Vec<usize>>()).prop_shuffle();
        let legal = "at most 2^53 - 1 is promised by any node";
        (vec((above, limits), len), order).prop_filter_map(legal, |(drawn, order)| {
            let mut nodes: Vec<(usize, Node)> = drawn
                .into_iter()
                .enumerate()
                .map(|(i, (above, (rpm, tpm)))| {
                    // Drawn among earlier nodes, so that there is no cycle; `order` then hides that.
                    let parent = above.filter(|_| i > 0).map(|above| order[above.index(i)]);
                    let scope = Scope::new("node", order[i].to_string()).unwrap();
                    (order[i], Node { scope, parent, limits: Limits { rpm, tpm } })
                })
                .collect();
            nodes.sort_by_key(|(place, _)| *place);
            match RateTree::new(nodes.into_iter().map(|(_, node)| node).collect()) {
                Err(TreeError::PromisedTooMuch { .. }) => None,
                tree => Some(Arc::new(tree.unwrap())),
            }
        })
    })
}

/// Requests as (node, estimate), for a tree of any size.
pub(crate) fn requests() -> impl Strategy<Value = Vec<(prop::sample::Index, i64)>> {
    vec((any::<prop::sample::Index>(), estimate()), 0..40)
}

/// The tree with no limit in the other dimension.
pub(crate) fn limited_only_in(dimension: Dimension, tree: &RateTree) -> Arc<RateTree> {
    let nodes = tree.nodes().iter().cloned().map(|mut node| {
        match dimension {
            Dimension::Rpm => node.limits.tpm = None,
            Dimension::Tpm => node.limits.rpm = None,
        }
        node
    });
    Arc::new(RateTree::new(nodes.collect()).unwrap())
}
