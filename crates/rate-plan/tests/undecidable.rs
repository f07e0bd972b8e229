//! Input that is neither admitted nor rejected: it is refused, and no counter moves.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::sync::Arc;

use rate_plan::{Dimension, Limits, MAX_LIMIT, RateTree, Scope, Usage, UsageError, admit, check};

fn flat(limits: &[Limits]) -> Arc<RateTree> {
    let scope = |id: usize| Scope::new("key", id.to_string()).unwrap();
    let scopes = limits.iter().enumerate().map(|(id, &limits)| (scope(id), limits)).collect();
    Arc::new(RateTree::flat(scopes).unwrap())
}

fn estimate(tokens: u64) -> i64 {
    i64::try_from(tokens).unwrap()
}

#[test]
fn usage_needs_one_entry_for_each_node() {
    let tree = flat(&[Limits::SHARED; 2]);
    for entries in [0, 1, 3] {
        let usage = vec![Usage::default(); entries];
        let refused = check(&tree.plan_of(vec![]).unwrap(), &usage, 0);
        assert_eq!(refused, Err(UsageError::LengthMismatch { entries, nodes: 2 }));
    }
}

#[test]
fn an_estimate_is_at_most_2_to_the_53_less_1() {
    let tree = flat(&[Limits::SHARED]);
    let usage = [Usage::default()];
    let plan = tree.plan(0).unwrap();
    assert!(check(&plan, &usage, estimate(MAX_LIMIT)).unwrap().is_admitted());
    for too_large in [estimate(MAX_LIMIT) + 1, i64::MAX] {
        let refused = check(&plan, &usage, too_large);
        assert_eq!(refused, Err(UsageError::EstimateTooLarge { estimate: too_large }));
    }
}

#[test]
fn a_counter_that_is_above_the_bound_is_refused_wherever_it_is() {
    let tree = flat(&[Limits::SHARED; 2]);
    let usage = [Usage::default(), Usage { rpm: 0, tpm: u64::MAX }];
    let expected = UsageError::CounterTooLarge { index: 1, dimension: Dimension::Tpm, used: u64::MAX };
    assert_eq!(check(&tree.plan(0).unwrap(), &usage, 0), Err(expected));
}

#[test]
fn a_counter_never_wraps_and_a_full_one_moves_no_other() {
    let tree = flat(&[Limits::SHARED; 2]);
    let plan = tree.plan_of(vec![0, 1]).unwrap();
    let mut usage = [Usage::default(), Usage { rpm: 0, tpm: MAX_LIMIT - 5 }];
    let before = usage;
    let expected =
        UsageError::CounterFull { index: 1, dimension: Dimension::Tpm, used: MAX_LIMIT - 5, demand: 6 };
    assert_eq!(admit(&plan, &mut usage, 6), Err(expected));
    assert_eq!(usage, before);
    assert!(admit(&plan, &mut usage, 5).unwrap().is_admitted());
    assert_eq!(usage[1].tpm, MAX_LIMIT);
}

#[test]
fn a_rejection_comes_before_a_full_counter() {
    let tree = flat(&[Limits::SHARED, Limits { rpm: None, tpm: Some(5) }]);
    let plan = tree.plan_of(vec![0, 1]).unwrap();
    let usage = [Usage { rpm: 0, tpm: MAX_LIMIT }, Usage::default()];
    let decision = check(&plan, &usage, 6).unwrap();
    assert_eq!(decision.rejection().unwrap().node, 1);
}
