//! Every order in which a few requests can arrive under one organization.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::sync::Arc;

use rate_plan::{Limits, Node, RateTree, Scope, Usage, Window, admit};

/// Two requests of team `a` (node 1), two of `b` (2), one of `c` (3).
const REQUESTS: [usize; 5] = [1, 1, 2, 2, 3];

fn organization(limit: u64, teams: [Option<u64>; 3]) -> Arc<RateTree> {
    let node = |kind, id, parent, rpm| Node {
        scope: Scope::new(kind, id).unwrap(),
        parent,
        limits: Limits { rpm, tpm: None },
    };
    let nodes = vec![
        node("organization", "o", None, Some(limit)),
        node("team", "a", Some(0), teams[0]),
        node("team", "b", Some(0), teams[1]),
        node("team", "c", Some(0), teams[2]),
    ];
    Arc::new(RateTree::new(nodes).unwrap())
}

/// Every distinct order of the requests: those sequences of five nodes that are a rearrangement of them.
fn orders() -> Vec<[usize; 5]> {
    let sequence = |code: usize| [code / 256, code / 64 % 4, code / 16 % 4, code / 4 % 4, code % 4];
    let is_rearrangement = |order: &[usize; 5]| {
        let mut sorted = *order;
        sorted.sort_unstable();
        sorted == REQUESTS
    };
    (0..4_usize.pow(5)).map(sequence).filter(is_rearrangement).collect()
}

/// How many requests the organization and each team had admitted.
fn admitted(tree: &Arc<RateTree>, order: &[usize]) -> [u64; 4] {
    let (mut usage, mut window) = ([Usage::default(); 4], Window::new(Arc::clone(tree)));
    let mut admitted = [0; 4];
    for &team in order {
        let plan = tree.plan(team).unwrap();
        let decision = admit(&plan, &mut usage, 0).unwrap();
        assert_eq!(window.admit(&plan, 0).unwrap(), decision, "both algorithms answer alike");
        if decision.is_admitted() {
            admitted[team] += 1;
            admitted[0] += 1;
        }
    }
    assert_eq!(usage.map(|node| node.rpm), admitted, "the counters say what was answered");
    admitted
}

#[test]
fn there_are_thirty_orders() {
    assert_eq!(orders().len(), 30);
}

#[test]
fn where_everything_fits_no_order_refuses_anyone() {
    let tree = organization(5, [Some(2), Some(2), None]);
    for order in orders() {
        assert_eq!(admitted(&tree, &order), [5, 2, 2, 1], "{order:?}");
    }
}

#[test]
fn what_is_allocated_is_kept_in_every_order() {
    let tree = organization(4, [Some(2), Some(2), None]);
    for order in orders() {
        assert_eq!(admitted(&tree, &order), [4, 2, 2, 0], "{order:?}");
    }
}

#[test]
fn sharers_divide_what_is_left_by_arrival() {
    let tree = organization(4, [Some(2), None, None]);
    for order in orders() {
        let first_two_sharers: Vec<usize> = order.iter().copied().filter(|&team| team != 1).take(2).collect();
        let b = first_two_sharers.iter().filter(|&&team| team == 2).count() as u64;
        assert_eq!(admitted(&tree, &order), [4, 2, b, 2 - b], "{order:?}");
    }
}

#[test]
fn an_allocation_that_nobody_uses_up_stays_idle_in_every_order() {
    // Team b holds 3 and asks for 2: the third stays held, so c finds no room though one is never used.
    let tree = organization(5, [Some(2), Some(3), None]);
    for order in orders() {
        assert_eq!(admitted(&tree, &order), [4, 2, 2, 0], "{order:?}");
    }
}
