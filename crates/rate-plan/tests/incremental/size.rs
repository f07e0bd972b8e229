//! Trees as large and as deep as they may be, on a stack that no recursion over them would fit.

use std::sync::Arc;
use std::thread;

use rate_plan::{
    Adjustment, Dimension, Limits, MAX_DEPTH, MAX_NODES, Node, RateTree, Scope, Usage, Window, check,
};

const STACK_BYTES: usize = 64 * 1024;

fn on_a_small_stack(test: impl FnOnce() + Send + 'static) {
    thread::Builder::new().stack_size(STACK_BYTES).spawn(test).unwrap().join().unwrap();
}

fn node(id: usize, parent: Option<usize>, limit: Option<u64>) -> Node {
    Node {
        scope: Scope::new("node", id.to_string()).unwrap(),
        parent,
        limits: Limits { rpm: limit, tpm: limit },
    }
}

#[test]
fn a_hundred_thousand_children_of_one_node() {
    on_a_small_stack(|| {
        let keys = (1..MAX_NODES).map(|id| node(id, Some(0), Some(1)));
        let limit = MAX_NODES as u64;
        let nodes = std::iter::once(node(0, None, Some(limit))).chain(keys).collect();
        let tree = Arc::new(RateTree::new(nodes).unwrap());
        assert_eq!(tree.promised(0, Dimension::Tpm), limit - 1);
        let mut window = Window::new(Arc::clone(&tree));
        for key in (1..MAX_NODES).rev() {
            assert!(window.admit(&tree.plan(key).unwrap(), 1).unwrap().is_admitted());
        }
        assert_eq!(window.nodes()[0].released, Usage { rpm: limit - 1, tpm: limit - 1 });
        assert!(window.admit(&tree.plan(0).unwrap(), 1).unwrap().is_admitted(), "the one that nobody holds");
        assert!(!window.admit(&tree.plan(0).unwrap(), 1).unwrap().is_admitted());

        let kept = window.nodes().to_vec();
        window.rebuild(Arc::new(RateTree::clone(&tree)));
        assert_eq!(window.nodes(), kept);
    });
}

#[test]
fn chains_of_the_greatest_depth_that_fill_a_tree() {
    on_a_small_stack(|| {
        // Listed leaf first. Every fourth node is fixed, the root of each chain too.
        let parent = |id: usize| Some(id + 1).filter(|above| above % MAX_DEPTH != 0);
        let limit = |id: usize| (id % 4 == 3).then_some(2 + (id % MAX_DEPTH) as u64);
        let nodes = (0..MAX_NODES).map(|id| node(id, parent(id), limit(id))).collect();
        let tree = Arc::new(RateTree::new(nodes).unwrap());
        let mut window = Window::new(Arc::clone(&tree));
        for leaf in [0, MAX_DEPTH, MAX_NODES - MAX_DEPTH] {
            let plan = tree.plan(leaf).unwrap();
            assert_eq!(plan.path().len(), MAX_DEPTH);
            for _ in 0..7 {
                let usage: Vec<Usage> = window.nodes().iter().map(|node| node.used).collect();
                assert_eq!(window.admit(&plan, 1), check(&plan, &usage, 1));
            }
            window.adjust(&plan, Adjustment { rpm: -2, tpm: 1 }).unwrap();
        }
        let kept = window.nodes().to_vec();
        window.rebuild(Arc::new(RateTree::clone(&tree)));
        assert_eq!(window.nodes(), kept);
    });
}
