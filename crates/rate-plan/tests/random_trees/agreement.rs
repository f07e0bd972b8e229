//! The reference decides as the oracle does, whatever has been used and however limits compare with it.

use std::sync::Arc;

use proptest::prelude::*;
use rate_plan::{Decision, Dimension, MAX_LIMIT, RatePlan, RateTree, Usage, UsageError, check};

use crate::{generator, oracle};

fn agree(plan: &RatePlan, usage: &[Usage], estimate: i64) -> Result<(), TestCaseError> {
    let path = plan.path().as_slice();
    let wanted = oracle::refusal(plan.tree(), path, usage, estimate);
    let full = path
        .iter()
        .any(|&node| Dimension::ALL.iter().any(|d| usage[node].get(*d) + d.demand(estimate) > MAX_LIMIT));
    match check(plan, usage, estimate) {
        Ok(Decision::Admitted(got)) => {
            prop_assert!(wanted.is_none() && !full, "oracle: {wanted:?}");
            prop_assert_eq!(got, oracle::admitted(plan.tree(), path, usage, estimate));
        }
        Ok(Decision::Rejected(got)) => {
            prop_assert_eq!(wanted, Some((got.node, got.dimension, got.held_for_siblings.into())));
            let node = &plan.tree().nodes()[got.node];
            prop_assert_eq!(Some(got.limit), node.limits.get(got.dimension));
            prop_assert_eq!(&got.scope, &node.scope);
            prop_assert_eq!(got.used, usage[got.node].get(got.dimension));
            prop_assert_eq!(got.demand, got.dimension.demand(estimate));
        }
        Err(UsageError::CounterFull { .. }) => {
            prop_assert!(wanted.is_none() && full, "oracle: {wanted:?}");
        }
        Err(other) => prop_assert!(false, "legal input was refused: {other}"),
    }
    Ok(())
}

fn tree_and_usage() -> impl Strategy<Value = (Arc<RateTree>, Vec<Usage>)> {
    generator::tree().prop_flat_map(|tree| {
        let usage = generator::usage(tree.len());
        (Just(tree), usage)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn every_path_of_a_tree_is_decided_as_by_the_oracle(
        (tree, usage) in tree_and_usage(),
        estimate in generator::estimate(),
    ) {
        for leaf in 0..tree.len() {
            agree(&tree.plan(leaf).unwrap(), &usage, estimate)?;
        }
        agree(&tree.plan_of(vec![]).unwrap(), &usage, estimate)?;
    }

    #[test]
    fn every_order_of_a_flat_path_is_decided_as_by_the_oracle(
        (tree, usage) in tree_and_usage(),
        estimate in generator::estimate(),
        order in Just((0..10_usize).collect::<Vec<_>>()).prop_shuffle(),
        len in 0..10_usize,
    ) {
        let scopes = tree.nodes().iter().map(|n| (n.scope.clone(), n.limits)).collect();
        let flat = Arc::new(RateTree::flat(scopes).unwrap());
        let path = order.into_iter().filter(|&node| node < flat.len()).take(len).collect();
        agree(&flat.plan_of(path).unwrap(), &usage, estimate)?;
    }
}
