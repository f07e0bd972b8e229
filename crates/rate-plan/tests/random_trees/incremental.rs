//! The incremental algorithm on random trees whose numbers reach their bounds, and what a batch may rely on.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::Index;
use rate_plan::{Adjustment, Dimension, Limits, RatePlan, RateTree};

use crate::common::Both;
use crate::generator;

#[derive(Clone, Debug)]
enum Step {
    Admit(Index, i64),
    Adjust(Index, Adjustment),
    Limits(Index, Limits),
}

fn step() -> impl Strategy<Value = Step> {
    let limits = (option::of(generator::amount()), option::of(generator::amount()));
    prop_oneof![
        6 => (any::<Index>(), generator::estimate()).prop_map(|(at, estimate)| Step::Admit(at, estimate)),
        2 => (any::<Index>(), -3..4_i64, generator::estimate(), any::<bool>()).prop_map(|(at, rpm, tpm, back)| {
            Step::Adjust(at, Adjustment { rpm, tpm: if back { -tpm } else { tpm } })
        }),
        1 => (any::<Index>(), limits).prop_map(|(at, (rpm, tpm))| Step::Limits(at, Limits { rpm, tpm })),
    ]
}

/// How many more requests of this estimate fit, judged by the headrooms that the first of them left.
fn predicted(plan: &RatePlan, both: &mut Both, estimate: i64) -> Option<Option<u64>> {
    let decision = both.admit(plan, estimate).ok()?;
    let left = Dimension::ALL.into_iter().filter_map(|dimension| {
        decision.admitted()?.headroom(dimension)?.remaining.checked_div(dimension.demand(estimate))
    });
    let left = left.min();
    decision.is_admitted().then_some(left)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn decisions_and_corrections_are_those_of_the_reference(
        tree in generator::tree(),
        steps in vec(step(), 0..60),
    ) {
        let (mut tree, mut both) = (Arc::clone(&tree), Both::new(&tree));
        for step in steps {
            match step {
                Step::Admit(at, estimate) => {
                    let _answer = both.admit(&tree.plan(at.index(tree.len())).unwrap(), estimate);
                }
                Step::Adjust(at, change) => {
                    let _outcome = both.adjust(&tree.plan(at.index(tree.len())).unwrap(), change);
                }
                Step::Limits(at, limits) => {
                    // Changes that promise too much are no configuration.
                    if let Ok(changed) = RateTree::with_limits(&tree, at.index(tree.len()), limits) {
                        tree = Arc::new(changed);
                        both.rebuild(&tree);
                    }
                }
            }
            both.assert_exact();
        }
    }

    #[test]
    fn state_rebuilt_from_any_counters_decides_as_the_reference(
        (tree, usage) in generator::tree().prop_flat_map(|tree| {
            let usage = generator::usage(tree.len());
            (Just(tree), usage)
        }),
        requests in generator::requests(),
    ) {
        let mut both = Both::with_usage(&tree, usage);
        both.assert_exact();
        for (leaf, estimate) in requests {
            let _answer = both.admit(&tree.plan(leaf.index(tree.len())).unwrap(), estimate);
        }
        both.assert_exact();
    }

    #[test]
    fn equal_requests_in_a_row_are_decided_by_the_headrooms_alone(
        tree in generator::tree(),
        requests in generator::requests(),
        (leaf, estimate) in (any::<Index>(), generator::estimate()),
    ) {
        let mut both = Both::new(&tree);
        for (leaf, estimate) in requests {
            let _answer = both.admit(&tree.plan(leaf.index(tree.len())).unwrap(), estimate);
        }
        let plan = tree.plan(leaf.index(tree.len())).unwrap();
        if let Some(predicted) = predicted(&plan, &mut both, estimate) {
            let some = predicted.unwrap_or(u64::MAX).min(20);
            for _ in 0..some {
                // A counter may be full though no limit is.
                let Ok(decision) = both.admit(&plan, estimate) else { return Ok(()) };
                prop_assert!(decision.is_admitted());
            }
            if predicted == Some(some) {
                prop_assert!(!both.admit(&plan, estimate).unwrap().is_admitted());
            }
        }
    }
}
