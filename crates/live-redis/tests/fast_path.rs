//! The O(path) scripts decide and correct as the reference does, whatever changes in mid-minute.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod common;

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

use common::{Hot, now};
use live_redis::{LiveRedisError, SettleRefusal, Ticket};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use rate_plan::{Decision, Limits, MAX_LIMIT, Node, RatePlan, RateTree, Scope, Usage, UsageError, admit};

/// What a minute's counters must be: what each scope has used, whatever the tree looks like.
#[derive(Default)]
struct Model {
    used: HashMap<Scope, Usage>,
    decisions: u64,
}

impl Model {
    fn admit(&mut self, plan: &RatePlan, estimate: i64) -> Result<Decision, UsageError> {
        let nodes = plan.tree().nodes();
        let mut usage: Vec<Usage> =
            nodes.iter().map(|node| self.used.get(&node.scope).copied().unwrap_or_default()).collect();
        let decision = admit(plan, &mut usage, estimate);
        for &node in plan.path().as_slice() {
            self.used.insert(nodes[node].scope.clone(), usage[node]);
        }
        self.decisions += 1;
        decision
    }

    /// Corrects every counter of a path; `false`, with nothing changed, when one would not hold it.
    fn correct(&mut self, admitted: &Admitted, requests: i64, tokens: i64) -> bool {
        let path = admitted.plan.path().as_slice().iter();
        let scopes: Vec<_> = path.map(|&node| &admitted.plan.tree().nodes()[node].scope).collect();
        let changed = |used: Usage| Usage {
            rpm: used.rpm.checked_add_signed(requests).unwrap(),
            tpm: used.tpm.checked_add_signed(tokens).unwrap(),
        };
        let fits = scopes.iter().all(|scope| changed(self.used[*scope]).tpm <= MAX_LIMIT);
        if fits {
            for scope in scopes {
                self.used.insert(scope.clone(), changed(self.used[scope]));
            }
        }
        fits
    }
}

struct Admitted {
    plan: RatePlan,
    ticket: Ticket,
}

#[derive(Debug, Clone)]
enum Act {
    /// One request through a client that has this version of the tree.
    Admit {
        client: usize,
        node: Index,
        estimate: i64,
    },
    /// Several requests in one call.
    Batch {
        client: usize,
        requests: Vec<(Index, i64)>,
    },
    /// The client's configuration changes.
    Change {
        client: usize,
        node: Index,
        rpm: Option<u64>,
        tpm: Option<u64>,
    },
    /// The client takes over the newest configuration of another one.
    Adopt {
        client: usize,
        from: usize,
    },
    Settle {
        ticket: Index,
        actual: u64,
    },
    Refund {
        ticket: Index,
    },
}

const CLIENTS: usize = 3;

fn limit() -> impl Strategy<Value = Option<u64>> {
    prop_oneof![3 => Just(None), 1 => Just(Some(0)), 6 => (1..60_u64).prop_map(Some)]
}

/// A tree whose shape runs from a star to a chain of 32.
fn trees() -> impl Strategy<Value = Vec<Node>> {
    let node = (any::<Index>(), limit(), limit());
    (prop::collection::vec(node, 1..33), 0..10_u32).prop_map(|(drawn, chain)| {
        let mut depth: Vec<u32> = Vec::new();
        let mut nodes: Vec<Node> = Vec::new();
        for (at, (up, rpm, tpm)) in drawn.into_iter().enumerate() {
            // The higher `chain`, the likelier a node hangs below the one before it.
            let parent = (at > 0).then(|| if up.index(10) < chain as usize { at - 1 } else { up.index(at) });
            depth.push(parent.map_or(1, |parent| depth[parent] + 1));
            let scope = Scope::new("n", at.to_string()).unwrap();
            nodes.push(Node { scope, parent, limits: Limits { rpm, tpm } });
        }
        nodes
    })
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let client = || 0..CLIENTS;
    let most = MAX_LIMIT.cast_signed();
    let estimate = move || prop_oneof![20 => -3..40_i64, 1 => most - 30..=most, 1 => Just(most / 2)];
    let request = move || (any::<Index>(), estimate());
    let act = prop_oneof![
        6 => (client(), request()).prop_map(|(client, (node, estimate))| Act::Admit { client, node, estimate }),
        3 => (client(), prop::collection::vec(request(), 1..12))
            .prop_map(|(client, requests)| Act::Batch { client, requests }),
        1 => (client(), any::<Index>(), limit(), limit())
            .prop_map(|(client, node, rpm, tpm)| Act::Change { client, node, rpm, tpm }),
        1 => (client(), client()).prop_map(|(client, from)| Act::Adopt { client, from }),
        2 => (any::<Index>(), 0..80_u64).prop_map(|(ticket, actual)| Act::Settle { ticket, actual }),
        1 => any::<Index>().prop_map(|ticket| Act::Refund { ticket }),
    ];
    prop::collection::vec(act, 1..80)
}

async fn play(hot: &Hot, partition: &str, nodes: Vec<Node>, acts: Vec<Act>) -> Result<u64, TestCaseError> {
    let tree = Arc::new(RateTree::new(nodes).unwrap());
    let mut versions: Vec<Arc<RateTree>> = vec![tree; CLIENTS];
    let mut model = Model::default();
    let mut open: Vec<Admitted> = Vec::new();
    for act in acts {
        match act {
            Act::Admit { client, node, estimate } => {
                let plan = versions[client].plan(node.index(versions[client].len())).unwrap();
                let got = hot.redis.admit_rate_plan_in(partition, &plan, estimate, now()).await;
                match (got, model.admit(&plan, estimate)) {
                    (Ok(got), want) => {
                        prop_assert_eq!(Ok(got.decision().clone()), want);
                        open.extend(got.into_ticket().map(|ticket| Admitted { plan, ticket }));
                    }
                    (Err(LiveRedisError::Usage(got)), want) => prop_assert_eq!(Err(got), want),
                    (Err(got), want) => prop_assert!(false, "{got} is not {want:?}"),
                }
            }
            Act::Batch { client, requests } => {
                let tree = &versions[client];
                let requests: Vec<_> = requests
                    .into_iter()
                    .map(|(node, estimate)| (tree.plan(node.index(tree.len())).unwrap(), estimate))
                    .collect();
                let got = hot.redis.admit_rate_plans(partition, &requests, now()).await.unwrap();
                for ((plan, estimate), got) in requests.into_iter().zip(got) {
                    let decision = got.as_ref().map(|got| got.decision().clone()).map_err(|error| *error);
                    prop_assert_eq!(decision, model.admit(&plan, estimate));
                    let ticket = got.ok().and_then(live_redis::Admission::into_ticket);
                    open.extend(ticket.map(|ticket| Admitted { plan, ticket }));
                }
            }
            Act::Change { client, node, rpm, tpm } => {
                let tree = &versions[client];
                let changed = tree.with_limits(node.index(tree.len()), Limits { rpm, tpm }).unwrap();
                versions[client] = Arc::new(changed);
            }
            Act::Adopt { client, from } => versions[client] = Arc::clone(&versions[from]),
            Act::Settle { ticket, actual } if !open.is_empty() => {
                let admitted = open.swap_remove(ticket.index(open.len()));
                let settled = hot.redis.settle(&admitted.ticket, actual).await;
                let tokens = actual.cast_signed() - admitted.ticket.estimate().cast_signed();
                if !model.correct(&admitted, 0, tokens) {
                    prop_assert!(matches!(settled, Err(LiveRedisError::CounterFull(_))), "{settled:?}");
                    open.push(admitted);
                    continue;
                }
                prop_assert_eq!(settled, Ok(()));
                let again = hot.redis.refund(&admitted.ticket).await.unwrap_err();
                prop_assert_eq!(again, LiveRedisError::Settle(SettleRefusal::Repeated));
            }
            Act::Refund { ticket } if !open.is_empty() => {
                let admitted = open.swap_remove(ticket.index(open.len()));
                hot.redis.refund(&admitted.ticket).await.unwrap();
                prop_assert!(model.correct(&admitted, -1, -admitted.ticket.estimate().cast_signed()));
                let again = hot.redis.settle(&admitted.ticket, 5).await.unwrap_err();
                prop_assert_eq!(again, LiveRedisError::Settle(SettleRefusal::Repeated));
            }
            Act::Settle { .. } | Act::Refund { .. } => {}
        }
    }
    Ok(model.decisions)
}

#[test]
fn fifty_thousand_decisions_agree_with_the_reference_while_versions_flip_and_tickets_settle() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let hot = runtime.block_on(Hot::shared());
    let (decisions, cases) = (Cell::new(0), Cell::new(0));
    while decisions.get() < 50_000 {
        let config = Config { cases: 200, failure_persistence: None, ..Config::default() };
        TestRunner::new(config)
            .run(&(trees(), acts()), |(nodes, acts)| {
                cases.set(cases.get() + 1);
                let partition = format!("case/{}", cases.get());
                let done = runtime.block_on(play(&hot, &partition, nodes, acts))?;
                decisions.set(decisions.get() + done);
                Ok(())
            })
            .unwrap();
    }
    println!("{} decisions in {} programs agree", decisions.get(), cases.get());
}

fn scope(kind: &str, id: &str) -> Scope {
    Scope::new(kind, id).unwrap()
}

/// Every order of `counts[i]` requests of child i under one parent, then each next request.
#[tokio::test]
async fn every_order_of_small_trees_decides_every_next_request_as_the_reference_does() {
    let hot = Hot::shared().await;
    let mut orders = 0;
    let mut decisions = 0;
    for (limits, counts) in [
        ([Some(2), Some(2), None], [2, 2, 1]),
        ([Some(2), None, None], [2, 2, 1]),
        ([Some(3), Some(1), Some(1)], [3, 1, 1]),
        ([Some(1), Some(2), None], [2, 2, 2]),
    ] {
        let root = Node { scope: scope("o", "o"), parent: None, limits: Limits { rpm: Some(5), tpm: None } };
        let mut nodes = vec![root];
        nodes.extend(limits.iter().enumerate().map(|(at, &rpm)| Node {
            scope: scope("k", &at.to_string()),
            parent: Some(0),
            limits: Limits { rpm, tpm: None },
        }));
        let tree = Arc::new(RateTree::new(nodes).unwrap());
        for order in permutations(counts) {
            orders += 1;
            let mut model = Model::default();
            let partition = format!("order/{orders}");
            for (at, &child) in order.iter().enumerate() {
                let plan = tree.plan(child + 1).unwrap();
                let got = hot.redis.admit_rate_plan_in(&partition, &plan, 1, now()).await.unwrap();
                assert_eq!(got.decision(), &model.admit(&plan, 1).unwrap(), "{order:?} at {at}");
            }
            for next in 0..3 {
                let plan = tree.plan(next + 1).unwrap();
                let got = hot.redis.admit_rate_plan_in(&partition, &plan, 1, now()).await.unwrap();
                assert_eq!(got.decision(), &model.admit(&plan, 1).unwrap(), "{order:?} then {next}");
            }
            decisions += model.decisions;
        }
    }
    println!("{orders} orders, {decisions} decisions");
    assert_eq!(orders, 30 + 30 + 20 + 90);
}

fn permutations(counts: [usize; 3]) -> Vec<Vec<usize>> {
    if counts == [0; 3] {
        return vec![vec![]];
    }
    let mut all = Vec::new();
    for child in 0..3 {
        if counts[child] > 0 {
            let mut rest = counts;
            rest[child] -= 1;
            all.extend(permutations(rest).into_iter().map(|mut order| {
                order.push(child);
                order
            }));
        }
    }
    all
}

fn wide(keys: usize, rpm: u64) -> Arc<RateTree> {
    let root = Node { scope: scope("o", "o"), parent: None, limits: Limits { rpm: Some(rpm), tpm: None } };
    let mut nodes = vec![root];
    nodes.extend((1..keys).map(|at| Node {
        scope: scope("k", &at.to_string()),
        parent: Some(0),
        limits: Limits { rpm: Some(2), tpm: None },
    }));
    Arc::new(RateTree::new(nodes).unwrap())
}

#[tokio::test]
async fn a_rebuild_of_a_hundred_thousand_nodes_keeps_every_counter() {
    const NODES: usize = 100_000;
    let hot = Hot::private().await;
    let tree = wide(NODES, 200_000);
    let mut model = Model::default();
    for from in (1..NODES).step_by(1000) {
        let requests: Vec<_> =
            (from..(from + 1000).min(NODES)).map(|at| (tree.plan(at).unwrap(), 1)).collect();
        for got in hot.redis.admit_rate_plans("o/o", &requests, now()).await.unwrap() {
            assert!(got.unwrap().is_admitted());
        }
    }
    for node in tree.nodes() {
        let rpm = if node.parent.is_some() { 1 } else { NODES as u64 - 1 };
        model.used.insert(node.scope.clone(), Usage { rpm, tpm: rpm });
    }
    // 99,999 keys have used one of two each: one more for all of them is promised, nothing else is left.
    let changed =
        Arc::new(tree.with_limits(0, Limits { rpm: Some(2 * (NODES as u64 - 1)), tpm: None }).unwrap());
    let _: String = hot.run(&[b"CONFIG", b"SET", b"slowlog-log-slower-than", b"10000"]).await;
    for (tree, node) in
        [(&changed, 5), (&changed, 5), (&changed, 0), (&tree, 6), (&changed, 6), (&changed, 6)]
    {
        let plan = tree.plan(node).unwrap();
        let got = hot.redis.admit_rate_plan_in("o/o", &plan, 1, now()).await.unwrap();
        assert_eq!(got.decision(), &model.admit(&plan, 1).unwrap(), "{node}");
    }
    let slow: Vec<Vec<redis::Value>> = hot.run(&[b"SLOWLOG", b"GET", b"20"]).await;
    for entry in &slow {
        let micros: u64 = redis::from_redis_value_ref(&entry[2]).unwrap();
        println!("a call of {micros} us");
    }
}
