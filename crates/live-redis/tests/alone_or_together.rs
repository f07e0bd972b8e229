//! Whoever waits with others is told what it would be told alone: unlike callers at once, against the same ones by one.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use common::Hot;
use futures_util::future::join_all;
use live_redis::{Admission, LiveRedis, LiveRedisError, Options, WindowClock};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestCaseError;
use rate_plan::{Decision, Limits, Node, RateTree, Scope};

/// One caller.
#[derive(Debug, Clone)]
enum Caller {
    /// `admit_rates` for scopes of a few keys, each with its limits.
    Flat { keys: BTreeMap<u8, (Option<u64>, Option<u64>)>, estimate: i64 },
    /// A node of one of three versions of a tree, listed forwards or backwards, made anew by this caller or shared.
    Tree { version: usize, backwards: bool, own: bool, node: Index, estimate: i64, among_flat: bool },
}

fn limit() -> impl Strategy<Value = Option<u64>> {
    prop_oneof![3 => Just(None), 1 => Just(Some(0)), 6 => (1..12_u64).prop_map(Some)]
}

fn caller() -> impl Strategy<Value = Caller> {
    // Mostly few limits for one scope, so that lists go together too.
    let limits = prop_oneof![4 => Just((Some(8), None)), 1 => (limit(), limit())];
    let flat = (prop::collection::btree_map(0..40_u8, limits, 0..33), -1..4_i64);
    let few = (prop::collection::btree_map(0..5_u8, (limit(), limit()), 0..4), -1..4_i64);
    let tree =
        (0..3_usize, any::<bool>(), any::<bool>(), any::<Index>(), -1..4_i64, prop::bool::weighted(0.2));
    prop_oneof![
        2 => flat.prop_map(|(keys, estimate)| Caller::Flat { keys, estimate }),
        3 => few.prop_map(|(keys, estimate)| Caller::Flat { keys, estimate }),
        5 => tree.prop_map(|(version, backwards, own, node, estimate, among_flat)| Caller::Tree {
            version, backwards, own, node, estimate, among_flat
        }),
    ]
}

/// Three versions of one tree: one organization, two teams, four keys, some of which have the names of flat scopes.
fn versions(limits: &[(Option<u64>, Option<u64>)]) -> Vec<[Arc<RateTree>; 2]> {
    let parents = [None, Some(0), Some(0), Some(1), Some(1), Some(2), Some(2)];
    let versions = limits.chunks(parents.len()).map(|limits| {
        let node = |at: usize| Node {
            scope: Scope::new("key", format!("{at}")).unwrap(),
            parent: parents[at],
            limits: Limits { rpm: limits[at].0, tpm: limits[at].1 },
        };
        let forwards: Vec<_> = (0..parents.len()).map(node).collect();
        let backwards = forwards.iter().rev().cloned();
        let backwards = backwards.map(|node| Node { parent: node.parent.map(|parent| 6 - parent), ..node });
        [forwards.clone(), backwards.collect()].map(|nodes| Arc::new(RateTree::new(nodes).unwrap()))
    });
    versions.collect()
}

async fn ask(
    redis: LiveRedis,
    trees: Arc<Vec<[Arc<RateTree>; 2]>>,
    caller: Caller,
    now: DateTime<Utc>,
) -> Result<Admission, LiveRedisError> {
    match caller {
        Caller::Flat { keys, estimate } => {
            let scopes = keys
                .into_iter()
                .map(|(key, (rpm, tpm))| (Scope::new("key", key.to_string()).unwrap(), Limits { rpm, tpm }));
            redis.admit_rates(scopes.collect(), estimate, now).await
        }
        Caller::Tree { version, backwards, own, node, estimate, among_flat } => {
            let tree = &trees[version][usize::from(backwards)];
            let tree = if own { Arc::new(RateTree::clone(tree)) } else { Arc::clone(tree) };
            let node = tree.find("key", &node.index(tree.len()).to_string()).unwrap();
            let partition = if among_flat { "flat" } else { "tree" };
            redis.admit_rate_plan_in(partition, &tree.plan(node).unwrap(), estimate, now).await
        }
    }
}

/// What each is told, and the requests and tokens that are counted in the end, when every second ticket was given back.
type Outcome = (Vec<Result<Decision, LiveRedisError>>, BTreeMap<String, Vec<u8>>);

async fn outcome(hot: &Hot, answers: Vec<Result<Admission, LiveRedisError>>, now: DateTime<Utc>) -> Outcome {
    let given_back = answers.iter().flatten().filter_map(Admission::ticket).step_by(2);
    for refunded in join_all(given_back.map(|ticket| hot.redis.refund(ticket))).await {
        refunded.unwrap();
    }
    let mut counted = BTreeMap::new();
    for partition in ["flat", "tree"] {
        let key = hot.key(&format!("rate:{}:{partition}", now.timestamp() / 60));
        let fields: BTreeMap<String, Vec<u8>> = hot.run(&[b"HGETALL", key.as_bytes()]).await;
        let fields = fields.into_iter().filter(|(field, _)| field != "v");
        counted.extend(fields.map(|(field, value)| (format!("{partition} {field}"), value[..16].to_vec())));
    }
    (answers.into_iter().map(|answer| answer.map(Admission::into_decision)).collect(), counted)
}

async fn compare(
    connections: usize,
    clock: WindowClock,
    limits: Vec<(Option<u64>, Option<u64>)>,
    callers: Vec<Caller>,
) -> Result<(), TestCaseError> {
    let options = |options: Options| options.with_hot_connections(connections).with_window_clock(clock);
    let together = Hot::shared_with(options).await;
    let alone = Hot::shared_with(|given| options(given).with_micro_batch(1)).await;
    let mut now = common::now();
    if clock == WindowClock::Redis {
        // The server's minute must not end on the way, else the window is rightly another one.
        while Utc::now().timestamp() % 60 > 50 {
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
        now = Utc::now();
    }
    let trees = Arc::new(versions(&limits));
    // One thread: tasks start, and wait in their lane, in the order in which they are spawned.
    let tasks = callers
        .iter()
        .cloned()
        .map(|caller| tokio::spawn(ask(together.redis.clone(), Arc::clone(&trees), caller, now)));
    let answers = join_all(tasks.collect::<Vec<_>>()).await.into_iter().map(Result::unwrap).collect();
    let got = outcome(&together, answers, now).await;
    let mut answers = Vec::new();
    for caller in callers {
        answers.push(ask(alone.redis.clone(), Arc::clone(&trees), caller, now).await);
    }
    prop_assert_eq!(got, outcome(&alone, answers, now).await);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn unlike_callers_at_once_are_each_told_what_they_would_be_told_alone(
        many in any::<bool>(),
        server_clock in prop::bool::weighted(0.3),
        limits in prop::collection::vec((limit(), limit()), 21),
        callers in prop::collection::vec(caller(), 1..80),
    ) {
        let clock = if server_clock { WindowClock::Redis } else { WindowClock::Local };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(compare(if many { 4 } else { 1 }, clock, limits, callers))?;
    }
}
