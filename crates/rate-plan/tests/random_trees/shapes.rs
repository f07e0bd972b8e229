//! Construction accepts exactly the legal shapes, and looks nodes up where they are.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use rate_plan::{Limits, MAX_DEPTH, Node, RateTree, Scope};

use crate::generator;

fn nodes() -> impl Strategy<Value = Vec<Node>> {
    (0..40_usize).prop_flat_map(|len| {
        // Near neighbours above make long chains; any index, one past the end too, makes cycles and orphans.
        let parents = prop_oneof![
            vec(option::weighted(0.95, 0..=len), len),
            vec(option::weighted(0.99, 1..3_usize), len).prop_map(|steps| {
                steps.iter().enumerate().map(|(i, step)| i.checked_sub((*step)?)).collect::<Vec<_>>()
            }),
        ];
        let ids = prop_oneof![9 => Just(usize::MAX), 1 => Just(20)];
        (parents, ids).prop_map(|(parents, distinct)| {
            let node = |(i, parent): (usize, Option<usize>)| Node {
                scope: Scope::new("node", (i % distinct).to_string()).unwrap(),
                parent,
                limits: Limits::SHARED,
            };
            parents.into_iter().enumerate().map(node).collect()
        })
    })
}

fn is_legal(nodes: &[Node]) -> bool {
    let depth_is_legal = |mut at: usize| {
        for _ in 0..MAX_DEPTH {
            match nodes[at].parent {
                None => return true,
                Some(parent) if parent >= nodes.len() => return false,
                Some(parent) => at = parent,
            }
        }
        false
    };
    let unique = |i: usize| nodes[..i].iter().all(|other| other.scope != nodes[i].scope);
    (0..nodes.len()).all(|i| depth_is_legal(i) && unique(i))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn a_tree_is_accepted_exactly_when_it_is_legal(nodes in nodes()) {
        let legal = is_legal(&nodes);
        let result = RateTree::new(nodes);
        prop_assert_eq!(result.is_ok(), legal, "{:?}", result.err());
    }

    #[test]
    fn every_node_is_found_by_its_scope_and_below_its_parent(tree in generator::tree()) {
        for (i, node) in tree.nodes().iter().enumerate() {
            prop_assert_eq!(tree.find(node.scope.kind(), node.scope.id()), Some(i));
            let children: Vec<usize> = tree.children(i).collect();
            let wanted: Vec<usize> = (0..tree.len()).filter(|&c| tree.nodes()[c].parent == Some(i)).collect();
            prop_assert_eq!(children, wanted);
        }
        prop_assert_eq!(tree.find("node", "nobody"), None);
        prop_assert_eq!(tree.find("other", "0"), None);
    }
}
