//! What must hold in every tree, whoever asks for what.

use std::sync::Arc;

use proptest::prelude::*;
use rate_plan::{Dimension, Limits, Node, RateTree, check};

use crate::common::Both;
use crate::generator;

/// Raises each limit to what is promised below it, so that no node is over-committed.
fn with_promises_covered(tree: &RateTree) -> Arc<RateTree> {
    let nodes = tree.nodes().iter().enumerate().map(|(i, node)| {
        let [rpm, tpm] = Dimension::ALL.map(|dimension| covering(tree, dimension, i));
        Node { limits: Limits { rpm, tpm }, ..node.clone() }
    });
    Arc::new(RateTree::new(nodes.collect()).unwrap())
}

fn covering(tree: &RateTree, dimension: Dimension, node: usize) -> Option<u64> {
    let limit = tree.nodes()[node].limits.get(dimension)?;
    Some(limit.max(tree.children(node).map(|child| promised(tree, dimension, child)).sum()))
}

fn promised(tree: &RateTree, dimension: Dimension, node: usize) -> u64 {
    covering(tree, dimension, node)
        .unwrap_or_else(|| tree.children(node).map(|child| promised(tree, dimension, child)).sum())
}

/// A tree whose limits can be summed and filled one by one.
fn small_tree() -> impl Strategy<Value = Arc<RateTree>> {
    generator::tree().prop_map(|tree| {
        let small = |limit: Option<u64>| limit.map(|limit| limit % 8);
        let nodes = tree.nodes().iter().cloned().map(|node| {
            let limits = Limits { rpm: small(node.limits.rpm), tpm: small(node.limits.tpm) };
            Node { limits, ..node }
        });
        Arc::new(RateTree::new(nodes.collect()).unwrap())
    })
}

/// Requests that cannot fill a shared node's counter, which would keep others out though no limit does.
fn small_requests() -> impl Strategy<Value = Vec<(prop::sample::Index, i64)>> {
    generator::requests()
        .prop_map(|requests| requests.into_iter().map(|(leaf, estimate)| (leaf, estimate.min(8))).collect())
}

fn run(tree: &Arc<RateTree>, requests: &[(prop::sample::Index, i64)]) -> Both {
    let mut both = Both::new(tree);
    for (leaf, estimate) in requests {
        // A full counter is as good as a rejection here: nothing moves.
        let _outcome = both.admit(&tree.plan(leaf.index(tree.len())).unwrap(), *estimate);
    }
    both
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn an_admission_counts_on_every_path_node_and_a_refusal_on_none(
        tree in generator::tree(),
        requests in generator::requests(),
        (leaf, estimate) in (any::<prop::sample::Index>(), generator::estimate()),
    ) {
        let mut both = run(&tree, &requests);
        let before = both.usage.clone();
        let plan = tree.plan(leaf.index(tree.len())).unwrap();
        let admitted = both.admit(&plan, estimate).is_ok_and(|decision| decision.is_admitted());
        for (node, (before, after)) in before.iter().zip(&both.usage).enumerate() {
            let counted = u64::from(admitted && plan.path().as_slice().contains(&node));
            prop_assert_eq!(after.rpm, before.rpm + counted);
            prop_assert_eq!(after.tpm, before.tpm + counted * Dimension::Tpm.demand(estimate));
        }
    }

    #[test]
    fn no_fixed_node_exceeds_its_limit(tree in generator::tree(), requests in generator::requests()) {
        for (node, usage) in tree.nodes().iter().zip(run(&tree, &requests).usage) {
            for dimension in Dimension::ALL {
                prop_assert!(node.limits.get(dimension).is_none_or(|limit| usage.get(dimension) <= limit));
            }
        }
    }

    #[test]
    fn an_allocation_can_be_used_up_whatever_others_did(tree in small_tree(), requests in small_requests()) {
        for dimension in Dimension::ALL {
            let tree = with_promises_covered(&generator::limited_only_in(dimension, &tree));
            let both = run(&tree, &requests);
            for leaf in (0..tree.len()).filter(|&node| tree.children(node).len() == 0) {
                let Some(limit) = tree.nodes()[leaf].limits.get(dimension) else { continue };
                let mut both = both.clone();
                let plan = tree.plan(leaf).unwrap();
                while both.usage[leaf].get(dimension) < limit {
                    let decision = both.admit(&plan, 1).unwrap();
                    prop_assert!(decision.is_admitted(), "node {}: {:?}", leaf, decision);
                }
                prop_assert!(!both.admit(&plan, 1).unwrap().is_admitted());
            }
        }
    }

    #[test]
    fn an_allocation_can_be_taken_in_one_request(tree in small_tree(), requests in small_requests()) {
        let tree = with_promises_covered(&generator::limited_only_in(Dimension::Tpm, &tree));
        let both = run(&tree, &requests);
        for leaf in (0..tree.len()).filter(|&node| tree.children(node).len() == 0) {
            let Some(limit) = tree.nodes()[leaf].limits.tpm.filter(|&limit| limit > 0) else { continue };
            let rest = i64::try_from(limit - both.usage[leaf].tpm).unwrap();
            prop_assert!(both.check(&tree.plan(leaf).unwrap(), rest).unwrap().is_admitted());
        }
    }

    #[test]
    fn what_waiting_cannot_help_is_refused_in_every_other_minute_too(
        tree in generator::tree(),
        requests in generator::requests(),
        in_another_minute in generator::requests(),
        (leaf, estimate) in (any::<prop::sample::Index>(), generator::estimate()),
    ) {
        let plan = tree.plan(leaf.index(tree.len())).unwrap();
        let hopeless = run(&tree, &requests)
            .check(&plan, estimate)
            .is_ok_and(|decision| !decision.is_admitted() && decision.retry_after(0).is_none());
        if hopeless {
            for others in 0..=in_another_minute.len() {
                let both = run(&tree, &in_another_minute[..others]);
                prop_assert!(!both.check(&plan, estimate).unwrap().is_admitted());
            }
        }
    }

    #[test]
    fn tokens_are_only_ever_named_when_requests_would_pass(
        tree in generator::tree(),
        requests in generator::requests(),
        (leaf, estimate) in (any::<prop::sample::Index>(), generator::estimate()),
    ) {
        let usage = run(&tree, &requests).usage;
        let leaf = leaf.index(tree.len());
        let requests_alone = generator::limited_only_in(Dimension::Rpm, &tree);
        if let Ok(both) = check(&tree.plan(leaf).unwrap(), &usage, estimate) {
            let by_requests = check(&requests_alone.plan(leaf).unwrap(), &usage, estimate);
            match both.rejection().map(|rejection| rejection.dimension) {
                Some(Dimension::Rpm) => prop_assert_eq!(by_requests, Ok(both)),
                _ => prop_assert!(!by_requests.is_ok_and(|alone| !alone.is_admitted())),
            }
        }
    }
}
