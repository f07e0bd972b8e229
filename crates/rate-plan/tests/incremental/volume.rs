//! A million decisions on trees of every legal depth, with limits changing in mid-minute, settlements and refunds.

use std::sync::Arc;

use rate_plan::{Adjustment, Decision, Dimension, Limits, MAX_DEPTH, Node, RatePlan, RateTree, Scope};

use crate::common::Both;
use crate::random::Random;

const DECISIONS: u64 = 1_000_000;
const DECISIONS_PER_MINUTE: u64 = 150;
const SEED: u64 = 3;

#[derive(Debug, Default)]
struct Counts {
    admitted: u64,
    rejected: u64,
    rejected_in_tokens: u64,
    /// There was room, but it is held for others.
    rejected_by_reservations: u64,
    limit_changes: u64,
    settled: u64,
    refunded: u64,
    trees: u64,
}

#[test]
fn a_million_decisions_are_those_of_the_reference() {
    let mut random = Random(SEED);
    let mut counts = Counts::default();
    while counts.admitted + counts.rejected < DECISIONS {
        counts.trees += 1;
        let depth = 1 + usize::try_from(counts.trees).unwrap() % MAX_DEPTH;
        let tree = tree(&mut random, depth);
        one_minute(&mut random, tree, &mut counts);
    }
    println!("{} decisions, seed {SEED}: {counts:?}", counts.admitted + counts.rejected);
    assert!(counts.admitted > DECISIONS / 10 && counts.rejected > DECISIONS / 10, "{counts:?}");
    let kinds = counts.rejected_in_tokens.min(counts.rejected_by_reservations);
    assert!(kinds > DECISIONS / 20, "{counts:?}");
    assert!(counts.limit_changes.min(counts.settled).min(counts.refunded) > DECISIONS / 100, "{counts:?}");
}

fn one_minute(random: &mut Random, mut tree: Arc<RateTree>, counts: &mut Counts) {
    let mut both = Both::new(&tree);
    let mut open: Vec<(Vec<usize>, i64)> = Vec::new();
    for _ in 0..DECISIONS_PER_MINUTE {
        if random.percent(4) {
            let node = random.below(tree.len());
            tree = Arc::new(tree.with_limits(node, limits(random, tree.len() - node)).unwrap());
            both.rebuild(&tree);
            counts.limit_changes += 1;
        }
        if !open.is_empty() && random.percent(10) {
            let (path, estimate) = open.swap_remove(random.below(open.len()));
            let plan = tree.plan_of(path).unwrap();
            let change = if random.percent(30) {
                counts.refunded += 1;
                Adjustment { rpm: -1, tpm: -estimate }
            } else {
                counts.settled += 1;
                Adjustment { rpm: 0, tpm: i64::try_from(random.below(150)).unwrap() - estimate }
            };
            both.adjust(&plan, change).unwrap();
            both.assert_exact();
        }
        let (plan, estimate) = (plan(random, &tree), i64::try_from(random.below(100)).unwrap() - 5);
        match both.admit(&plan, estimate).unwrap() {
            Decision::Admitted(_) => {
                counts.admitted += 1;
                open.push((plan.path().as_slice().to_vec(), estimate.max(0)));
            }
            Decision::Rejected(it) => {
                counts.rejected += 1;
                counts.rejected_in_tokens += u64::from(it.dimension == Dimension::Tpm);
                let room = it.limit > 0 && it.used + it.demand <= it.limit;
                counts.rejected_by_reservations += u64::from(room);
            }
        }
    }
    both.assert_exact();
}

/// A chain of this depth and more nodes anywhere below it; flat for depth 1.
fn tree(random: &mut Random, depth: usize) -> Arc<RateTree> {
    let len = depth + random.below(24);
    let mut level = vec![1; len];
    let mut nodes: Vec<Node> = Vec::with_capacity(len);
    for place in 0..len {
        let parent = match place {
            0 => None,
            _ if place < depth => Some(place - 1),
            _ if depth == 1 => None,
            _ => Some(random.below(place)).filter(|&above| level[above] < MAX_DEPTH),
        };
        level[place] = parent.map_or(1, |parent| level[parent] + 1);
        let scope = Scope::new("node", place.to_string()).unwrap();
        nodes.push(Node { scope, parent, limits: limits(random, len - place) });
    }
    Arc::new(RateTree::new(nodes).unwrap())
}

/// Wide enough for several requests, and the wider the more nodes come after this one, which may all be below it.
fn limits(random: &mut Random, after: usize) -> Limits {
    let mut limit = |scale: usize| match random.below(200) {
        0 => Some(0),
        1..=120 => None,
        121..=130 => Some(1 + random.below(scale) as u64),
        _ => Some((scale + random.below(scale * after)) as u64),
    };
    Limits { rpm: limit(10), tpm: limit(500) }
}

fn plan(random: &mut Random, tree: &Arc<RateTree>) -> RatePlan {
    if tree.is_flat() {
        let mut path: Vec<usize> = (0..tree.len()).filter(|_| random.percent(40)).collect();
        let len = path.len();
        for place in 0..len {
            path.swap(place, random.below(len));
        }
        return tree.plan_of(path).unwrap();
    }
    tree.plan(random.below(tree.len())).unwrap()
}
