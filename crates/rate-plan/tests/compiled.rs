//! What a tree computes once: its promises and its fingerprint.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::collections::HashSet;
use std::sync::Arc;

use rate_plan::{
    Dimension, Fingerprint, Limits, MAX_LIMIT, MAX_NODES, Node, RatePlan, RateTree, Scope, TreeError,
};

fn node(kind: &str, id: &str, parent: Option<usize>, rpm: Option<u64>) -> Node {
    Node { scope: Scope::new(kind, id).unwrap(), parent, limits: Limits { rpm, tpm: None } }
}

/// organization `o` > team `t` > keys `a` and `b`
fn nodes() -> Vec<Node> {
    vec![
        node("organization", "o", None, Some(100)),
        node("team", "t", Some(0), None),
        node("key", "a", Some(1), Some(7)),
        node("key", "b", Some(1), Some(5)),
    ]
}

fn fingerprint(nodes: Vec<Node>) -> Fingerprint {
    RateTree::new(nodes).unwrap().fingerprint()
}

#[test]
fn a_fixed_child_promises_its_limit_and_a_shared_one_what_is_below_it() {
    let tree = RateTree::new(nodes()).unwrap();
    let promised: Vec<u64> = (0..5).map(|node| tree.promised(node, Dimension::Rpm)).collect();
    assert_eq!(promised, [12, 12, 0, 0, 0]);
    assert_eq!(tree.promised(0, Dimension::Tpm), 0);
    let fixed = tree.with_limits(1, Limits { rpm: Some(20), tpm: Some(3) }).unwrap();
    assert_eq!(fixed.promised(0, Dimension::Rpm), 20);
    assert_eq!(fixed.promised(1, Dimension::Rpm), 12);
    assert_eq!(fixed.promised(0, Dimension::Tpm), 3);
}

#[test]
fn a_node_promises_at_most_2_to_the_53_less_1() {
    let with = |b| {
        let mut nodes = nodes();
        nodes[2].limits.rpm = Some(MAX_LIMIT - 5);
        nodes[3].limits.rpm = Some(b);
        RateTree::new(nodes)
    };
    let legal = with(5).unwrap();
    assert_eq!(legal.promised(0, Dimension::Rpm), MAX_LIMIT);
    assert_eq!(
        with(6).unwrap_err().to_string(),
        "node 1 (team/t) promises 9007199254740992 rpm to the nodes below it; at most 9007199254740991 can be \
         promised"
    );
    let raised = legal.with_limits(3, Limits { rpm: Some(6), tpm: None });
    assert!(matches!(raised, Err(TreeError::PromisedTooMuch { dimension: Dimension::Rpm, .. })));
}

#[test]
fn promises_beyond_64_bits_are_refused_and_do_not_wrap() {
    let keys = (1..MAX_NODES).map(|id| node("key", &id.to_string(), Some(0), Some(MAX_LIMIT)));
    let nodes = std::iter::once(node("organization", "o", None, None)).chain(keys).collect();
    let expected = u128::from(MAX_LIMIT) * (MAX_NODES as u128 - 1);
    let refused = RateTree::new(nodes).unwrap_err();
    assert!(
        matches!(refused, TreeError::PromisedTooMuch { promised, .. } if promised == expected),
        "{refused}"
    );
}

#[test]
fn roots_are_summed_by_nobody() {
    let roots = (0..3).map(|id| node("key", &id.to_string(), None, Some(MAX_LIMIT))).collect();
    assert!(RateTree::new(roots).is_ok());
}

#[test]
fn a_fingerprint_does_not_depend_on_the_order_of_nodes() {
    let shuffled = vec![
        node("key", "b", Some(2), Some(5)),
        node("organization", "o", None, Some(100)),
        node("team", "t", Some(1), None),
        node("key", "a", Some(2), Some(7)),
    ];
    assert_eq!(fingerprint(nodes()), fingerprint(shuffled));
}

#[test]
fn whatever_differs_in_a_configuration_changes_its_fingerprint() {
    let changes: [fn(&mut Vec<Node>); 9] = [
        |_| (),
        |nodes| nodes[2].limits.rpm = Some(8),
        |nodes| nodes[2].limits.rpm = None,
        |nodes| nodes[1].limits.rpm = Some(0),
        |nodes| nodes[2].limits = Limits { rpm: None, tpm: Some(7) },
        |nodes| nodes[3].parent = Some(0),
        |nodes| nodes[3].parent = Some(2),
        |nodes| nodes[3].scope = Scope::new("ke", "yb").unwrap(),
        |nodes| nodes.truncate(3),
    ];
    let fingerprints: HashSet<Fingerprint> = changes
        .iter()
        .map(|change| {
            let mut nodes = nodes();
            change(&mut nodes);
            fingerprint(nodes)
        })
        .collect();
    assert_eq!(fingerprints.len(), changes.len());
    let tree = RateTree::new(nodes()).unwrap();
    let same = tree.with_limits(2, Limits { rpm: Some(8), tpm: None }).unwrap();
    let back = same.with_limits(2, tree.nodes()[2].limits).unwrap();
    assert_ne!(same.fingerprint(), tree.fingerprint());
    assert_eq!(back.fingerprint(), tree.fingerprint());
}

/// Stored beside counters, so another release must compute the same. SHA-256 of the encoding, computed apart.
#[test]
fn a_fingerprint_is_the_same_in_every_release() {
    assert_eq!(fingerprint(nodes()).to_string(), "f794f412bec26d57e2d2e14cc11dea22");
    assert_eq!(fingerprint(nodes()).as_bytes().len(), 16);
}

#[test]
fn every_flat_tree_has_one_fingerprint() {
    let flat = |ids: &[&str]| fingerprint(ids.iter().map(|id| node("key", id, None, Some(3))).collect());
    assert_eq!(flat(&["a", "b"]), Fingerprint::FLAT);
    assert_eq!(flat(&[]), Fingerprint::FLAT);
    assert_eq!(Fingerprint::FLAT.as_bytes(), b"rate-plan flat 1");
    assert_ne!(fingerprint(nodes()), Fingerprint::FLAT);
}

#[test]
fn a_plan_can_be_queued_and_shows_no_whole_tree() {
    fn queued<T: Clone + Send + Sync + 'static>(_: &T) {}
    let tree = Arc::new(RateTree::new(nodes()).unwrap());
    let plan: RatePlan = tree.plan(2).unwrap();
    queued(&plan);
    assert!(Arc::ptr_eq(plan.tree(), &tree));
    assert_eq!(format!("{plan:?}"), format!("RatePlan {{ tree: {}, path: [2, 1, 0] }}", tree.fingerprint()));
}
