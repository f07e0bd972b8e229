//! Small trees completely: every assignment of a few limits, every order of the requests, after each prefix every
//! next request.

use std::cell::Cell;
use std::sync::Arc;

use rate_plan::{Limits, Node, RatePlan, RateTree, Scope};

use crate::common::Both;

/// Every tree of these parents in which each node has one of these limits, in RPM and in TPM alike.
fn trees(parents: &[Option<usize>], limits: &[Option<u64>]) -> impl Iterator<Item = Arc<RateTree>> {
    let assignments = limits.len().pow(u32::try_from(parents.len()).unwrap());
    (0..assignments).map(move |code| {
        let node = |(place, &parent): (usize, &Option<usize>)| {
            let limit = limits[code / limits.len().pow(u32::try_from(place).unwrap()) % limits.len()];
            let scope = Scope::new("node", place.to_string()).unwrap();
            // Two tokens for each request.
            Node { scope, parent, limits: Limits { rpm: limit, tpm: limit.map(|limit| limit * 2) } }
        };
        Arc::new(RateTree::new(parents.iter().enumerate().map(node).collect()).unwrap())
    })
}

/// What a walk over all orders has seen.
#[derive(Default)]
struct Seen {
    orders: Cell<u64>,
    prefixes: Cell<u64>,
    decisions: Cell<u64>,
}

impl Seen {
    /// All orders of the requests that are left: `left[i]` of node i.
    fn walk(&self, plans: &[RatePlan], both: &Both, left: &mut [usize]) {
        self.prefixes.set(self.prefixes.get() + 1);
        for plan in plans {
            for estimate in [0, 1, 2, 3] {
                let _answer = both.check(plan, estimate).unwrap();
                self.decisions.set(self.decisions.get() + 1);
            }
        }
        if left.iter().all(|&left| left == 0) {
            self.orders.set(self.orders.get() + 1);
            both.assert_exact();
        }
        for node in 0..left.len() {
            if left[node] > 0 {
                left[node] -= 1;
                let mut next = both.clone();
                let _answer = next.admit(&plans[node], 2).unwrap();
                self.walk(plans, &next, left);
                left[node] += 1;
            }
        }
    }

    fn all(&self, tree: &Arc<RateTree>, requests: &[usize]) {
        let plans: Vec<RatePlan> = (0..tree.len()).map(|node| tree.plan(node).unwrap()).collect();
        self.walk(&plans, &Both::new(tree), &mut requests.to_vec());
    }
}

#[test]
fn two_two_and_one_requests_in_every_order_below_one_organization() {
    let seen = Seen::default();
    let mut trees_seen = 0;
    for tree in trees(&[None, Some(0), Some(0), Some(0)], &[None, Some(0), Some(2), Some(5)]) {
        seen.all(&tree, &[0, 2, 2, 1]);
        trees_seen += 1;
    }
    assert_eq!(seen.orders.get(), trees_seen * 30);
    println!("{trees_seen} trees, {} prefixes, {} decisions", seen.prefixes.get(), seen.decisions.get());
}

#[test]
fn more_requests_in_every_order_in_every_shape_of_four_nodes() {
    let shapes = [
        [None, Some(0), Some(0), Some(1)],
        [None, Some(0), Some(1), Some(1)],
        [None, Some(0), Some(1), Some(2)],
    ];
    let seen = Seen::default();
    let mut trees_seen = 0;
    for shape in shapes {
        for tree in trees(&shape, &[None, Some(1), Some(3)]) {
            seen.all(&tree, &[1, 1, 2, 2]);
            trees_seen += 1;
        }
    }
    assert_eq!(seen.orders.get(), trees_seen * 180);
    println!("{trees_seen} trees, {} prefixes, {} decisions", seen.prefixes.get(), seen.decisions.get());
}

#[test]
fn three_three_and_two_requests_in_each_of_their_560_orders() {
    let seen = Seen::default();
    let limits = [
        [Some(8), Some(3), Some(3), None],
        [Some(7), Some(3), None, None],
        [Some(6), Some(4), Some(4), Some(1)],
    ];
    for limits in limits {
        let node = |(place, limit): (usize, Option<u64>)| Node {
            scope: Scope::new("node", place.to_string()).unwrap(),
            parent: (place > 0).then_some(0),
            limits: Limits { rpm: limit, tpm: None },
        };
        let tree = Arc::new(RateTree::new(limits.into_iter().enumerate().map(node).collect()).unwrap());
        seen.all(&tree, &[0, 3, 3, 2]);
    }
    assert_eq!(seen.orders.get(), 3 * 560);
    println!("{} prefixes, {} decisions", seen.prefixes.get(), seen.decisions.get());
}
