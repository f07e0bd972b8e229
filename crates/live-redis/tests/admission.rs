//! The script decides as the reference does, atomically.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod common;

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use common::{Hot, now};
use live_redis::{Admission, FLAT_PARTITION, LiveRedisError};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rate_plan::{Limits, MAX_LIMIT, Node, RateTree, Scope, TreeError, Usage, UsageError, admit};

fn scope(kind: &str, id: &str) -> Scope {
    Scope::new(kind, id).unwrap()
}

fn node(kind: &str, id: &str, parent: Option<usize>, rpm: Option<u64>, tpm: Option<u64>) -> Node {
    Node { scope: scope(kind, id), parent, limits: Limits { rpm, tpm } }
}

fn organization(rpm: Option<u64>, tpm: Option<u64>, keys: usize) -> Arc<RateTree> {
    let mut nodes = vec![node("organization", "o", None, rpm, tpm)];
    nodes.extend((0..keys).map(|n| node("key", &format!("k{n}"), Some(0), None, None)));
    Arc::new(RateTree::new(nodes).unwrap())
}

async fn counters(hot: &Hot, minute: i64, partition: &str) -> HashMap<String, Vec<u8>> {
    hot.run(&[b"HGETALL", hot.key(&format!("rate:{minute}:{partition}")).as_bytes()]).await
}

#[tokio::test]
async fn a_hundred_keys_that_race_for_seven_requests_get_exactly_seven() {
    let hot = Hot::shared().await;
    let tree = organization(Some(7), None, 100);
    let mut race = tokio::task::JoinSet::new();
    for key in 1..=100 {
        let (redis, tree) = (hot.redis.clone(), tree.clone());
        race.spawn(async move { redis.admit_rate_plan(&tree.plan(key).unwrap(), 1, now()).await.unwrap() });
    }
    let decisions = race.join_all().await;
    assert_eq!(decisions.iter().filter(|decision| decision.is_admitted()).count(), 7);
    for rejection in decisions.iter().filter_map(Admission::rejection) {
        assert_eq!(rejection.to_string(), "organization rpm_limit");
        assert_eq!((rejection.limit, rejection.used, rejection.node), (7, 7, 0));
    }
}

#[tokio::test]
async fn a_refusal_changes_no_counter_at_any_level() {
    let hot = Hot::shared().await;
    let tree = organization(None, Some(100), 1);
    let plan = tree.plan(1).unwrap();
    assert!(hot.redis.admit_rate_plan(&plan, 100, now()).await.unwrap().is_admitted());
    let minute = now().timestamp() / 60;
    let before = counters(&hot, minute, "organization/o").await;
    assert_eq!(before.len(), 3, "shared nodes are counted too, beside the fingerprint");
    for _ in 0..10 {
        let refused = hot.redis.admit_rate_plan(&plan, 1, now()).await.unwrap();
        assert_eq!(refused.rejection().unwrap().to_string(), "organization tpm_limit");
    }
    assert_eq!(counters(&hot, minute, "organization/o").await, before);
}

#[tokio::test]
async fn every_minute_starts_at_zero_and_its_counters_expire() {
    let hot = Hot::shared().await;
    let tree = organization(Some(1), None, 0);
    let plan = tree.plan(0).unwrap();
    for minute in [0, 1, 60 * 24, -60 * 24 * 365 * 70] {
        let at: DateTime<Utc> = now() + TimeDelta::minutes(minute);
        assert!(hot.redis.admit_rate_plan(&plan, 0, at).await.unwrap().is_admitted());
        assert!(!hot.redis.admit_rate_plan(&plan, 0, at).await.unwrap().is_admitted());
        let key = hot.key(&format!("rate:{}:organization/o", at.timestamp().div_euclid(60)));
        let ttl: i64 = hot.run(&[b"TTL", key.as_bytes()]).await;
        assert!((1..=120).contains(&ttl), "{ttl}");
    }
}

#[tokio::test]
async fn an_empty_path_is_admitted_and_counts_nothing() {
    let hot = Hot::shared().await;
    let tree = organization(Some(0), Some(0), 0);
    let plan = tree.plan_of(vec![]).unwrap();
    assert!(hot.redis.admit_rate_plan(&plan, 5, now()).await.unwrap().is_admitted());
    assert!(hot.redis.admit_rates(vec![], 5, now()).await.unwrap().is_admitted());
    let keys: Vec<String> = hot.run(&[b"KEYS", format!("{}:*", hot.prefix).as_bytes()]).await;
    assert_eq!(keys, Vec::<String>::new());
}

#[tokio::test]
async fn independent_scopes_are_checked_in_the_order_given() {
    let hot = Hot::shared().await;
    let key = (scope("key", "k"), Limits { rpm: Some(5), tpm: Some(10) });
    let model = (scope("model", "{m}:*\u{e9}"), Limits { rpm: Some(1), tpm: None });
    let both = || vec![key.clone(), model.clone()];
    assert!(hot.redis.admit_rates(both(), 4, now()).await.unwrap().is_admitted());
    let refused = hot.redis.admit_rates(both(), 100, now()).await.unwrap();
    assert_eq!(refused.rejection().unwrap().to_string(), "model rpm_limit", "RPM before TPM");
    let alone = hot.redis.admit_rates(vec![key.clone()], 7, now()).await.unwrap();
    assert_eq!(alone.rejection().unwrap().used, 4, "scopes of one partition share counters");
    assert_eq!(counters(&hot, now().timestamp() / 60, FLAT_PARTITION).await.len(), 3);
    let twice = hot.redis.admit_rates(vec![key.clone(), key], 1, now()).await.unwrap_err();
    assert!(matches!(twice, LiveRedisError::Plan(TreeError::DuplicateScope { .. })), "{twice}");
}

#[tokio::test]
async fn the_edges_of_the_number_range_are_exact() {
    let hot = Hot::shared().await;
    let tree = organization(None, Some(MAX_LIMIT), 1);
    let plan = tree.plan(1).unwrap();
    let most = i64::try_from(MAX_LIMIT).unwrap();
    for estimate in [most + 1, i64::MAX] {
        let error = hot.redis.admit_rate_plan(&plan, estimate, now()).await.unwrap_err();
        assert_eq!(error, LiveRedisError::Usage(UsageError::EstimateTooLarge { estimate }));
    }
    assert!(hot.redis.admit_rate_plan(&plan, most - 1, now()).await.unwrap().is_admitted());
    let refused = hot.redis.admit_rate_plan(&plan, 2, now()).await.unwrap();
    assert_eq!(refused.rejection().unwrap().used, MAX_LIMIT - 1);
    assert!(hot.redis.admit_rate_plan(&plan, 1, now()).await.unwrap().is_admitted());
    assert!(hot.redis.admit_rate_plan(&plan, -1, now()).await.unwrap().is_admitted(), "negative counts as 0");

    let shared = organization(None, None, 0);
    let full = hot.redis.admit_rate_plan(&shared.plan(0).unwrap(), 1, now()).await.unwrap_err();
    assert!(matches!(full, LiveRedisError::Usage(UsageError::CounterFull { .. })), "{full}");
}

#[tokio::test]
async fn a_tree_wider_than_luas_stack_is_decided() {
    let hot = Hot::shared().await;
    let tree = organization(Some(2), None, 20_000);
    for key in [1, 20_000] {
        assert!(hot.redis.admit_rate_plan(&tree.plan(key).unwrap(), 1, now()).await.unwrap().is_admitted());
    }
    assert!(!hot.redis.admit_rate_plan(&tree.plan(9).unwrap(), 1, now()).await.unwrap().is_admitted());
}

/// Node, estimate, and whether and how the node's limits change just before.
type Request = (usize, i64, bool, [Option<u64>; 2]);

/// A forest, the requests that meet it, and changes of limits in between.
fn programs() -> impl Strategy<Value = (Vec<Node>, Vec<Request>)> {
    let limit = || prop_oneof![3 => Just(None), 1 => Just(Some(0)), 6 => (1..40_u64).prop_map(Some)];
    let nodes = prop::collection::vec((any::<prop::sample::Index>(), limit(), limit()), 1..12);
    let nodes = nodes.prop_map(|drawn| {
        let parent = |at: usize, index: prop::sample::Index| (at > 0).then(|| index.index(at));
        let drawn = drawn.into_iter().enumerate();
        drawn.map(|(at, (up, rpm, tpm))| node("n", &at.to_string(), parent(at, up), rpm, tpm)).collect()
    });
    let request = (any::<usize>(), -3..30_i64, prop::bool::weighted(0.1), [limit(), limit()]);
    (nodes, prop::collection::vec(request, 1..40))
}

#[test]
fn random_requests_with_limits_changing_in_mid_minute_are_decided_as_the_reference_does() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let hot = runtime.block_on(Hot::shared());
    let (decisions, cases) = (Cell::new(0), Cell::new(0));
    let mut runner = TestRunner::new(Config { cases: 150, failure_persistence: None, ..Config::default() });
    runner
        .run(&programs(), |(nodes, requests)| {
            cases.set(cases.get() + 1);
            let partition = format!("case/{}", cases.get());
            let mut tree = Arc::new(RateTree::new(nodes).unwrap());
            let mut usage = vec![Usage::default(); tree.len()];
            for (at, estimate, change, [rpm, tpm]) in requests {
                let at = at % tree.len();
                if change {
                    tree = Arc::new(tree.with_limits(at, Limits { rpm, tpm }).unwrap());
                }
                let plan = tree.plan(at).unwrap();
                let want = admit(&plan, &mut usage, estimate).unwrap();
                let got = hot.redis.admit_rate_plan_in(&partition, &plan, estimate, now());
                let got = runtime.block_on(got).unwrap();
                prop_assert_eq!(got.rejection(), want.rejection());
                decisions.set(decisions.get() + 1);
            }
            Ok(())
        })
        .unwrap();
    println!("{} decisions compared with the reference", decisions.get());
}
