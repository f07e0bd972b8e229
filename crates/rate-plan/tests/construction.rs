//! Which trees and paths are legal, and how the others are refused.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::sync::Arc;

use rate_plan::{
    Dimension, Limits, MAX_DEPTH, MAX_LIMIT, MAX_NODES, Node, Path, PathError, RatePlan, RateTree, Scope,
    TreeError,
};

fn node(id: usize, parent: Option<usize>) -> Node {
    Node { scope: Scope::new("team", id.to_string()).unwrap(), parent, limits: Limits::SHARED }
}

fn tree(parents: &[Option<usize>]) -> Result<RateTree, TreeError> {
    RateTree::new(parents.iter().enumerate().map(|(id, &parent)| node(id, parent)).collect())
}

fn message<T: std::fmt::Debug>(refused: Result<T, TreeError>) -> String {
    refused.unwrap_err().to_string()
}

#[test]
fn no_node_at_all_and_several_roots_are_legal() {
    assert!(tree(&[]).unwrap().is_empty());
    assert_eq!(tree(&[None, Some(0), None]).unwrap().len(), 3);
}

#[test]
fn a_parent_must_exist_and_be_another_node() {
    assert_eq!(
        message(tree(&[None, Some(2)])),
        "node 1 (team/1) has parent 2, which is not one of the 2 nodes"
    );
    assert_eq!(
        message(tree(&[None, Some(1)])),
        "node 1 (team/1) is its own ancestor; parents must lead to a root"
    );
    assert!(matches!(tree(&[Some(1), Some(2), Some(0)]), Err(TreeError::Cycle { .. })));
    assert!(matches!(tree(&[Some(usize::MAX)]), Err(TreeError::ParentOutOfRange { .. })));
}

#[test]
fn a_scope_occurs_once() {
    let nodes = vec![node(7, None), node(8, Some(0)), node(7, Some(1))];
    assert_eq!(
        message(RateTree::new(nodes)),
        "node 2 (team/7) repeats the scope of node 0; each may occur once"
    );
    let other_kind = Node { scope: Scope::new("key", "7").unwrap(), parent: Some(0), limits: Limits::SHARED };
    assert!(RateTree::new(vec![node(7, None), other_kind]).is_ok(), "the same id in another kind is another");
}

#[test]
fn a_limit_is_at_most_2_to_the_53_less_1() {
    let limited = |tpm| {
        let scope = Scope::new("key", "k").unwrap();
        RateTree::flat(vec![(scope, Limits { rpm: Some(MAX_LIMIT), tpm: Some(tpm) })])
    };
    assert!(limited(MAX_LIMIT).is_ok());
    assert_eq!(
        message(limited(1 << 53)),
        "node 0 (key/k) has tpm limit 9007199254740992; at most 9007199254740991 is allowed"
    );
    let legal = limited(1).unwrap();
    assert!(matches!(
        legal.with_limits(0, Limits { rpm: Some(u64::MAX), tpm: None }),
        Err(TreeError::LimitTooLarge { dimension: Dimension::Rpm, limit: u64::MAX, .. })
    ));
}

#[test]
fn a_tree_has_at_most_32_levels() {
    let chain = |len: usize| tree(&(0..len).map(|i| i.checked_sub(1)).collect::<Vec<_>>());
    assert_eq!(chain(MAX_DEPTH).unwrap().path_from(MAX_DEPTH - 1).unwrap().len(), MAX_DEPTH);
    assert_eq!(
        message(chain(MAX_DEPTH + 1)),
        "node 32 (team/32) is more than 32 levels deep, its root being level 1"
    );
}

#[test]
fn a_tree_has_at_most_100_000_nodes() {
    let wide = |len: usize| tree(&(0..len).map(|i| i.checked_sub(1).map(|_| 0)).collect::<Vec<_>>());
    let largest = wide(MAX_NODES).unwrap();
    assert_eq!(largest.children(0).len(), MAX_NODES - 1);
    assert_eq!(largest.find("team", "99999"), Some(99_999));
    assert_eq!(message(wide(MAX_NODES + 1)), "a rate tree of 100001 nodes; at most 100000 are allowed");
}

#[test]
fn other_limits_make_another_tree_and_leave_this_one() {
    let before = tree(&[None, Some(0)]).unwrap();
    let limits = Limits { rpm: Some(5), tpm: Some(0) };
    let after = before.with_limits(1, limits).unwrap();
    assert_eq!(before.node(1).unwrap().limits, Limits::SHARED);
    assert_eq!(after.node(1).unwrap().limits, limits);
    assert_eq!(after.node(0), before.node(0));
    assert_eq!(message(before.with_limits(2, limits)), "there is no node 2; the tree has 2");
}

#[test]
fn a_path_goes_from_any_node_to_its_root() {
    let tree = tree(&[Some(2), Some(0), None, Some(2)]).unwrap();
    assert_eq!(tree.path_from(1).unwrap().as_slice(), [1, 0, 2]);
    assert_eq!(tree.path(vec![1, 0, 2]), tree.path_from(1));
    assert_eq!(tree.path(vec![0, 2]), tree.path_from(0));
    assert_eq!(tree.path(vec![]).unwrap(), Path::empty());
    assert!(Path::empty().is_empty() && !tree.path_from(0).unwrap().is_empty());
    assert!(!tree.is_empty() && RateTree::new(vec![]).unwrap().is_empty());
    let missing = PathError::NoSuchNode { position: 0, index: 4, nodes: 4 };
    assert_eq!(tree.path_from(4), Err(missing));
}

#[test]
fn a_path_that_skips_repeats_or_stops_early_is_refused() {
    let tree = tree(&[Some(2), Some(0), None, None]).unwrap();
    let refused = |indices: &[usize]| tree.path(indices.to_vec()).unwrap_err();
    let broken = |position, index, parent, next| PathError::NotAChain { position, index, parent, next };
    assert_eq!(refused(&[1, 2]), broken(0, 1, Some(0), Some(2)));
    assert_eq!(refused(&[1, 1, 0, 2]), broken(0, 1, Some(0), Some(1)));
    assert_eq!(refused(&[1, 0]), broken(1, 0, Some(2), None));
    assert_eq!(refused(&[2, 3]), broken(0, 2, None, Some(3)), "two roots are no chain beside a real tree");
    assert_eq!(refused(&[1, 9]), PathError::NoSuchNode { position: 1, index: 9, nodes: 4 });
}

#[test]
fn a_flat_path_names_distinct_roots_in_any_order() {
    let tree = tree(&[None, None, None]).unwrap();
    assert!(tree.is_flat());
    assert_eq!(tree.path(vec![2, 0]).unwrap().as_slice(), [2, 0]);
    assert_eq!(tree.path(vec![2, 0, 2]), Err(PathError::Repeated { index: 2 }));
}

#[test]
fn a_path_of_one_tree_is_validated_again_in_another() {
    let shared = |parents: &[Option<usize>]| Arc::new(tree(parents).unwrap());
    let old = shared(&[None, Some(0), Some(1)]);
    let path = old.plan(2).unwrap().into_path();
    assert_eq!(RatePlan::new(Arc::clone(&old), path.clone()).unwrap().path(), &path);

    let smaller = shared(&[None, Some(0)]);
    assert!(matches!(RatePlan::new(smaller, path.clone()), Err(PathError::NoSuchNode { .. })));
    let moved = shared(&[None, Some(0), Some(0)]);
    assert!(matches!(RatePlan::new(moved, path), Err(PathError::NotAChain { .. })));
}
