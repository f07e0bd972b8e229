//! The rules of admission, stated by who holds what rather than by sums over a tree.
//!
//! The unused part of a fixed node is held at exactly one place: its nearest fixed ancestor. A request passes a
//! fixed node of its path when the node's usage, what others hold there, and the demand stay within its limit; what
//! is held by a node of the request's own path is the request's to draw on.

use rate_plan::{Admitted, Dimension, Headroom, RateTree, Usage};

/// Where and why a request is refused: node, dimension, and what the node holds for others.
pub(crate) type Refusal = (usize, Dimension, u128);

pub(crate) fn refusal(tree: &RateTree, path: &[usize], usage: &[Usage], estimate: i64) -> Option<Refusal> {
    Dimension::ALL.into_iter().find_map(|dimension| {
        let demand = match dimension {
            Dimension::Rpm => 1,
            Dimension::Tpm => u128::from(estimate.max(0).unsigned_abs()),
        };
        path.iter().find_map(|&node| {
            let limit = u128::from(tree.nodes()[node].limits.get(dimension)?);
            let held = held_for_others(tree, path, usage, dimension, node);
            let fits = u128::from(usage[node].get(dimension)) + held + demand <= limit;
            (limit == 0 || !fits).then_some((node, dimension, held))
        })
    })
}

/// What an admission leaves on the path, given that nothing refuses it.
pub(crate) fn admitted(tree: &RateTree, path: &[usize], usage: &[Usage], estimate: i64) -> Admitted {
    let tokens = estimate.max(0).unsigned_abs();
    let after: Vec<Usage> = usage.iter().map(|it| Usage { rpm: it.rpm + 1, tpm: it.tpm + tokens }).collect();
    let [rpm, tpm] = Dimension::ALL.map(|dimension| {
        let headrooms = path.iter().filter_map(|&node| {
            let limit = tree.nodes()[node].limits.get(dimension)?;
            let held = held_for_others(tree, path, usage, dimension, node);
            let remaining = u128::from(limit) - u128::from(after[node].get(dimension)) - held;
            Some(Headroom { node, limit, remaining: u64::try_from(remaining).unwrap() })
        });
        headrooms.min_by_key(|headroom| headroom.remaining)
    });
    Admitted { usage: path.iter().map(|&node| after[node]).collect(), rpm, tpm }
}

fn held_for_others(
    tree: &RateTree,
    path: &[usize],
    usage: &[Usage],
    dimension: Dimension,
    at: usize,
) -> u128 {
    (0..tree.len())
        .filter(|node| !path.contains(node))
        .filter(|&node| nearest_fixed_ancestor(tree, dimension, node) == Some(at))
        .filter_map(|node| {
            let limit = tree.nodes()[node].limits.get(dimension)?;
            Some(u128::from(limit) - u128::from(limit.min(usage[node].get(dimension))))
        })
        .sum()
}

fn nearest_fixed_ancestor(tree: &RateTree, dimension: Dimension, node: usize) -> Option<usize> {
    let parent = tree.nodes()[node].parent?;
    if tree.nodes()[parent].limits.get(dimension).is_some() {
        Some(parent)
    } else {
        nearest_fixed_ancestor(tree, dimension, parent)
    }
}
