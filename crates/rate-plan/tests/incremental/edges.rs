//! Numbers at their bounds, and state that does not fit.

use std::sync::Arc;

use rate_plan::{
    Adjustment, Dimension, Limits, MAX_LIMIT, Node, NodeWindow, RatePlan, RateTree, Scope, Usage, UsageError,
    Window, adjust_on_path, admit_on_path,
};

fn node(kind: &str, id: &str, parent: Option<usize>, tpm: Option<u64>) -> Node {
    Node { scope: Scope::new(kind, id).unwrap(), parent, limits: Limits { rpm: None, tpm } }
}

/// An organization with this limit above a team with this limit above a key without one.
fn chain(organization: Option<u64>, team: Option<u64>) -> Arc<RateTree> {
    let nodes = vec![
        node("organization", "o", None, organization),
        node("team", "t", Some(0), team),
        node("key", "k", Some(1), None),
    ];
    Arc::new(RateTree::new(nodes).unwrap())
}

fn signed(amount: u64) -> i64 {
    i64::try_from(amount).unwrap()
}

fn key(tree: &Arc<RateTree>) -> RatePlan {
    tree.plan(2).unwrap()
}

#[test]
fn the_largest_limit_can_be_used_up_exactly_and_given_back() {
    let tree = chain(Some(MAX_LIMIT), Some(MAX_LIMIT));
    let (plan, mut windows) = (key(&tree), [NodeWindow::default(); 3]);
    for (estimate, admitted) in [(MAX_LIMIT - 1, true), (2, false), (1, true), (0, true), (1, false)] {
        let decision = admit_on_path(&plan, &mut windows, signed(estimate)).unwrap();
        assert_eq!(decision.is_admitted(), admitted, "{estimate}");
    }
    assert_eq!(windows[2].used.tpm, MAX_LIMIT);
    assert_eq!(windows[2].released.tpm, MAX_LIMIT, "the team holds nothing any more");
    adjust_on_path(&plan, &mut windows, Adjustment { rpm: -3, tpm: -signed(MAX_LIMIT) }).unwrap();
    assert_eq!(windows, [NodeWindow::default(); 3]);
}

#[test]
fn a_correction_stops_at_zero_and_moves_nothing_when_a_counter_is_full() {
    let tree = chain(Some(5), None);
    let (plan, mut windows) = (key(&tree), [NodeWindow::default(); 3]);
    adjust_on_path(&plan, &mut windows, Adjustment { rpm: i64::MIN, tpm: i64::MIN }).unwrap();
    assert_eq!(windows, [NodeWindow::default(); 3]);

    windows[2].used.tpm = MAX_LIMIT - 1;
    let before = windows;
    for (change, demand) in [(2, 2), (i64::MAX, i64::MAX.unsigned_abs())] {
        let change = Adjustment { rpm: 1, tpm: change };
        let refused = adjust_on_path(&plan, &mut windows, change);
        // The leaf has room for the smaller change; the organization at the other end has none.
        let (index, used) = if demand == 2 { (0, MAX_LIMIT - 1) } else { (2, 0) };
        let expected = UsageError::CounterFull { index, dimension: Dimension::Tpm, used, demand };
        assert_eq!(refused, Err(expected));
        assert_eq!(windows, before);
    }
    adjust_on_path(&plan, &mut windows, Adjustment { rpm: 0, tpm: 1 }).unwrap();
    assert_eq!(windows[2].used.tpm, MAX_LIMIT);
}

#[test]
fn a_counter_without_a_limit_is_full_at_the_bound_and_no_other_moves() {
    let tree = chain(None, None);
    let (plan, mut windows) = (key(&tree), [NodeWindow::default(); 3]);
    windows[1].used.rpm = MAX_LIMIT;
    let before = windows;
    let expected =
        UsageError::CounterFull { index: 1, dimension: Dimension::Rpm, used: MAX_LIMIT, demand: 1 };
    assert_eq!(admit_on_path(&plan, &mut windows, 0), Err(expected));
    assert_eq!(windows, before);
}

#[test]
fn windows_that_cannot_be_decided_upon_are_named() {
    let tree = chain(Some(10), Some(4));
    let (plan, fresh) = (key(&tree), [NodeWindow::default(); 3]);
    let refused = |mut windows: Vec<NodeWindow>| {
        let before = windows.clone();
        let error = admit_on_path(&plan, &mut windows, 0).unwrap_err();
        assert_eq!(adjust_on_path(&plan, &mut windows, Adjustment::default()), Err(error));
        assert_eq!(windows, before);
        error
    };
    assert_eq!(refused(fresh[1..].to_vec()), UsageError::LengthMismatch { entries: 2, nodes: 3 });

    let mut broken = fresh.to_vec();
    broken[1].used.rpm = MAX_LIMIT + 1;
    let expected = UsageError::CounterTooLarge { index: 1, dimension: Dimension::Rpm, used: MAX_LIMIT + 1 };
    assert_eq!(refused(broken), expected);

    let mut foreign = fresh.to_vec();
    foreign[2].released.tpm = 5;
    let expected = UsageError::Stale { index: 0, dimension: Dimension::Tpm };
    assert_eq!(refused(foreign), expected, "the organization never promised 5");

    let too_large = signed(MAX_LIMIT) + 1;
    let expected = UsageError::EstimateTooLarge { estimate: too_large };
    assert_eq!(admit_on_path(&plan, &mut fresh.clone(), too_large), Err(expected));
}

#[test]
fn state_that_another_configuration_left_is_noticed_where_it_does_not_add_up() {
    let tree = chain(Some(10), Some(4));
    let (plan, mut windows) = (key(&tree), [NodeWindow::default(); 3]);
    // All four released, though the team has used none of them.
    windows[2].released.tpm = 4;
    let expected = UsageError::Stale { index: 0, dimension: Dimension::Tpm };
    assert_eq!(admit_on_path(&plan, &mut windows, 1), Err(expected));
}

#[test]
fn a_window_takes_only_plans_of_its_own_tree() {
    let (tree, other) = (chain(Some(10), None), chain(Some(10), None));
    let mut window = Window::new(Arc::clone(&tree));
    assert_eq!(window.admit(&key(&other), 1), Err(UsageError::ForeignPlan));
    window.rebuild(Arc::clone(&other));
    assert!(window.admit(&key(&other), 1).unwrap().is_admitted());
    assert_eq!(window.check(&key(&tree), 1), Err(UsageError::ForeignPlan));
}

#[test]
fn usage_follows_its_scope_out_of_the_tree_and_back() {
    let tree = chain(Some(10), Some(4));
    let mut window = Window::new(Arc::clone(&tree));
    assert!(window.admit(&key(&tree), 4).unwrap().is_admitted());

    let without_team = vec![node("key", "k", Some(1), None), node("organization", "o", None, Some(10))];
    let without_team = Arc::new(RateTree::new(without_team).unwrap());
    window.rebuild(Arc::clone(&without_team));
    let used: Vec<Usage> = window.nodes().iter().map(|node| node.used).collect();
    assert_eq!(used, [Usage { rpm: 1, tpm: 4 }; 2]);
    assert_eq!(window.used_by(&tree.nodes()[1].scope), Usage { rpm: 1, tpm: 4 });

    // Settled on the path on which it was counted, whatever the tree is now.
    window.adjust(&key(&tree), Adjustment { rpm: 0, tpm: -1 }).unwrap();
    window.rebuild(Arc::clone(&tree));
    assert!(window.nodes().iter().all(|node| node.used == Usage { rpm: 1, tpm: 3 }));
    assert_eq!(window.nodes()[0].released.tpm, 3);
    assert!(!window.admit(&key(&tree), 2).unwrap().is_admitted());
    assert!(window.admit(&key(&tree), 1).unwrap().is_admitted());
}

#[test]
fn a_correction_across_trees_moves_nothing_when_one_counter_is_full() {
    let tree = chain(None, None);
    let mut window = Window::new(Arc::clone(&tree));
    let organization = tree.plan(0).unwrap();
    assert!(window.admit(&organization, signed(MAX_LIMIT)).unwrap().is_admitted());
    window.rebuild(chain(None, Some(3)));
    let before = window.nodes().to_vec();
    let refused = window.adjust(&key(&tree), Adjustment { rpm: 0, tpm: 1 });
    assert!(matches!(refused, Err(UsageError::CounterFull { index: 0, .. })), "{refused:?}");
    assert_eq!(window.nodes(), before);
}
