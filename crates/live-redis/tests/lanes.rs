//! Micro-batches: arrival order, an answer for each, and nobody touches anybody else's call.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod common;

use std::sync::Arc;

use chrono::TimeDelta;
use common::{Hot, now};
use live_redis::{Admission, LiveRedis, LiveRedisError, Options, WindowClock};
use rate_plan::{Limits, MAX_LIMIT, Node, RateTree, Scope, UsageError};
use tokio::task::JoinHandle;

fn tree(rpm: Option<u64>) -> Arc<RateTree> {
    let node = |kind: &str, parent, rpm| Node {
        scope: Scope::new(kind, "x").unwrap(),
        parent,
        limits: Limits { rpm, tpm: None },
    };
    Arc::new(RateTree::new(vec![node("o", None, rpm), node("k", Some(0), None)]).unwrap())
}

async fn calls(hot: &Hot) -> u64 {
    let info: String = hot.run(&[b"INFO", b"commandstats"]).await;
    let line = info.lines().find(|line| line.starts_with("cmdstat_evalsha:")).unwrap_or_default();
    line.split(['=', ',']).nth(1).map_or(0, |calls| calls.parse().unwrap())
}

fn spawn(hot: &Hot, tree: &Arc<RateTree>, estimate: i64) -> JoinHandle<Result<Admission, LiveRedisError>> {
    let (redis, plan) = (hot.redis.clone(), tree.plan(1).unwrap());
    tokio::spawn(async move { redis.admit_rate_plan(&plan, estimate, now()).await })
}

/// Lets every task run up to where it waits for the server.
async fn all_wait() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

/// Requests that have used the counters of `now`.
async fn used(hot: &Hot, tree: &Arc<RateTree>) -> u64 {
    let plan = tree.plan(0).unwrap();
    let peek = hot.redis.admit_rate_plan(&plan, 0, now()).await.unwrap();
    peek.decision().admitted().unwrap().usage[0].rpm - 1
}

// One thread: tasks start in the order in which they are spawned.
#[tokio::test]
async fn callers_that_wait_go_together_and_are_decided_in_the_order_of_their_arrival() {
    let hot = Hot::private().await;
    let tree = tree(Some(25));
    let callers: Vec<_> = (0..50).map(|_| spawn(&hot, &tree, 1)).collect();
    let mut answers = Vec::new();
    for caller in callers {
        answers.push(caller.await.unwrap().unwrap());
    }
    let admitted: Vec<bool> = answers.iter().map(Admission::is_admitted).collect();
    assert_eq!(admitted, [[true; 25], [false; 25]].concat());
    // Each has its own answer: the usage right after its own request.
    let usage = answers.iter().filter_map(|answer| answer.decision().admitted()).map(|a| a.usage[0].rpm);
    assert_eq!(usage.collect::<Vec<_>>(), (1..=25).collect::<Vec<_>>());
    let calls = calls(&hot).await;
    assert!(calls <= 4, "{calls} calls for 50 requests");
}

#[tokio::test]
async fn one_callers_error_is_its_own() {
    let hot = Hot::private().await;
    let shared = tree(None);
    let most = i64::try_from(MAX_LIMIT).unwrap();
    // The second and the fourth do not fit behind the third.
    let callers: Vec<_> =
        [1, 2, most - 3, 9, 0].into_iter().map(|tokens| spawn(&hot, &shared, tokens)).collect();
    let mut answers = Vec::new();
    for caller in callers {
        answers.push(caller.await.unwrap());
    }
    assert!(matches!(&answers[3], Err(LiveRedisError::Usage(UsageError::CounterFull { .. }))), "{answers:?}");
    for at in [0, 1, 2, 4] {
        assert!(answers[at].as_ref().unwrap().is_admitted(), "{at}: {answers:?}");
    }
    assert_eq!(used(&hot, &shared).await, 4);
}

#[tokio::test]
async fn a_caller_that_goes_before_its_call_is_sent_is_not_counted_and_harms_nobody() {
    let hot = Hot::private().await;
    let tree = tree(None);
    // The server holds back its answers, so the first call stays under way.
    let _: String = hot.run(&[b"CLIENT", b"PAUSE", b"100", b"ALL"]).await;
    let first = spawn(&hot, &tree, 1);
    all_wait().await;
    let waiting: Vec<_> = (0..10).map(|_| spawn(&hot, &tree, 1)).collect();
    all_wait().await;
    for gone in waiting.iter().step_by(2) {
        gone.abort();
    }
    assert!(first.await.unwrap().unwrap().is_admitted());
    for (at, caller) in waiting.into_iter().enumerate() {
        match caller.await {
            Ok(answer) => assert!(at % 2 == 1 && answer.unwrap().is_admitted()),
            Err(gone) => assert!(at % 2 == 0 && gone.is_cancelled()),
        }
    }
    assert_eq!(used(&hot, &tree).await, 6);
}

#[tokio::test]
async fn a_first_caller_that_goes_at_once_leaves_the_lane_to_the_others() {
    let hot = Hot::shared().await;
    let tree = tree(None);
    let first = spawn(&hot, &tree, 1);
    tokio::task::yield_now().await;
    first.abort();
    for _ in 0..3 {
        assert!(spawn(&hot, &tree, 1).await.unwrap().unwrap().is_admitted());
    }
}

#[tokio::test]
async fn versions_that_meet_in_one_lane_are_each_decided_by_their_own_limits() {
    let hot = Hot::shared().await;
    let (tight, loose) = (tree(Some(3)), tree(Some(6)));
    let callers: Vec<_> =
        (0..12).map(|at| spawn(&hot, if at % 2 == 0 { &tight } else { &loose }, 1)).collect();
    let mut admitted = Vec::new();
    for caller in callers {
        admitted.push(caller.await.unwrap().unwrap().is_admitted());
    }
    // In order: three through either, then only the loose version admits, up to six in all.
    assert_eq!(admitted, [true, true, true, true, false, true, false, true, false, false, false, false]);
}

fn key(id: &str, rpm: Option<u64>) -> (Scope, Limits) {
    (Scope::new("key", id).unwrap(), Limits { rpm, tpm: None })
}

/// Starts a call of `admit_rates`, up to where it waits.
fn flat(hot: &Hot, scopes: Vec<(Scope, Limits)>) -> JoinHandle<Result<Admission, LiveRedisError>> {
    let redis = hot.redis.clone();
    tokio::spawn(async move { redis.admit_rates(scopes, 1, now()).await })
}

#[tokio::test]
async fn flat_requests_that_wait_together_are_counted_each_on_its_own_scope() {
    let hot = Hot::private().await;
    let callers: Vec<_> = (0..20).map(|n| flat(&hot, vec![key(&format!("k{n}"), Some(10))])).collect();
    for caller in callers {
        let answer = caller.await.unwrap().unwrap();
        assert_eq!(answer.decision().admitted().unwrap().usage[0].rpm, 1);
    }
    let counters = hot.key(&format!("rate:{}:flat", now().timestamp() / 60));
    // Each of them, and the version.
    assert_eq!(hot.run::<u64>(&[b"HLEN", counters.as_bytes()]).await, 21);
    let calls = calls(&hot).await;
    assert!(calls <= 4, "{calls} calls for 20 requests");
}

#[tokio::test]
async fn flat_lists_of_unlike_length_go_together() {
    let hot = Hot::private().await;
    let mut callers = Vec::new();
    for n in 0..33 {
        callers.push(flat(&hot, (0..n).map(|k| key(&format!("k{k}"), Some(100))).collect()));
    }
    let mut answers = Vec::new();
    for caller in callers {
        answers.push(caller.await.unwrap().unwrap());
    }
    for (n, answer) in answers.iter().enumerate() {
        let usage: Vec<_> = answer.decision().admitted().unwrap().usage.iter().map(|used| used.rpm).collect();
        // Scope k is in each list that is longer than k.
        assert_eq!(usage, (0..n).map(|k| (n - k) as u64).collect::<Vec<_>>());
    }
    assert!(calls(&hot).await <= 4);
    // Each gives back what was counted for it and nothing else.
    for answer in &answers[1..] {
        hot.redis.refund(answer.ticket().unwrap()).await.unwrap();
    }
    let again =
        hot.redis.admit_rates(vec![key("k0", Some(100)), key("k31", Some(100))], 1, now()).await.unwrap();
    assert!(again.decision().admitted().unwrap().usage.iter().all(|used| used.rpm == 1));
}

#[tokio::test]
async fn a_scope_whose_limit_differs_between_callers_is_decided_by_each_ones_own() {
    let hot = Hot::private().await;
    let limits = [None, Some(0), Some(1), Some(2), Some(9), Some(2), None, Some(0), Some(4)];
    let callers: Vec<_> = limits.iter().map(|limit| flat(&hot, vec![key("k", *limit)])).collect();
    let mut admitted = Vec::new();
    for caller in callers {
        admitted.push(caller.await.unwrap().unwrap().is_admitted());
    }
    // In the order of arrival; what was admitted before counts for each.
    assert_eq!(admitted, [true, false, false, true, true, false, true, false, false]);
}

/// The same nodes, listed the other way round.
fn listed_backwards(tree: &RateTree) -> Arc<RateTree> {
    let last = tree.len() - 1;
    let nodes = tree.nodes().iter().rev().cloned();
    let nodes = nodes.map(|node| Node { parent: node.parent.map(|parent| last - parent), ..node });
    Arc::new(RateTree::new(nodes.collect()).unwrap())
}

#[tokio::test]
async fn a_tree_that_is_listed_in_another_order_goes_into_the_same_call_and_counts_on_its_own_nodes() {
    let hot = Hot::private().await;
    let node = |id: &str, parent, rpm| Node {
        scope: Scope::new("n", id).unwrap(),
        parent,
        limits: Limits { rpm: Some(rpm), tpm: None },
    };
    let forwards = Arc::new(
        RateTree::new(vec![node("o", None, 100), node("a", Some(0), 5), node("b", Some(0), 7)]).unwrap(),
    );
    let backwards = listed_backwards(&forwards);
    let mut callers = Vec::new();
    for at in 0..20 {
        let (tree, id) = if at % 2 == 0 { (&forwards, "a") } else { (&backwards, "b") };
        let (redis, plan) = (hot.redis.clone(), tree.plan(tree.find("n", id).unwrap()).unwrap());
        callers.push(tokio::spawn(async move { redis.admit_rate_plan(&plan, 1, now()).await }));
    }
    let mut admitted = [0, 0];
    for (at, caller) in callers.into_iter().enumerate() {
        admitted[at % 2] += u64::from(caller.await.unwrap().unwrap().is_admitted());
    }
    assert_eq!(admitted, [5, 7]);
    let calls = calls(&hot).await;
    assert!(calls <= 4, "{calls} calls for 20 requests");

    // By hand too, also where the tree is met for the first time in this minute.
    let wider = Arc::new(forwards.with_limits(1, Limits { rpm: Some(6), tpm: None }).unwrap());
    let of = |tree: &Arc<RateTree>, id| (tree.plan(tree.find("n", id).unwrap()).unwrap(), 1);
    let requests = [of(&wider, "a"), of(&listed_backwards(&wider), "a"), of(&listed_backwards(&wider), "b")];
    let answers = hot.redis.admit_rate_plans("n/o", &requests, now()).await.unwrap();
    let admitted: Vec<_> = answers.iter().map(|answer| answer.as_ref().unwrap().is_admitted()).collect();
    assert_eq!(admitted, [true, false, false]);
}

#[tokio::test]
async fn callers_of_one_minute_keep_their_own_seconds() {
    let hot = Hot::private().await;
    let tree = tree(Some(0));
    let callers: Vec<_> = [-25, 5, 29]
        .into_iter()
        .map(|seconds| {
            let (redis, plan) = (hot.redis.clone(), tree.plan(1).unwrap());
            tokio::spawn(async move {
                let answer = redis.admit_rate_plan(&plan, 1, now() + TimeDelta::seconds(seconds)).await;
                answer.unwrap().response_headers()
            })
        })
        .collect();
    for (caller, left) in callers.into_iter().zip([55, 25, 1]) {
        let headers = caller.await.unwrap();
        let reset = headers.iter().find(|(name, _)| *name == "x-ratelimit-reset-requests");
        assert!(
            reset.is_some_and(|(_, value)| value.trim_end_matches('s') == left.to_string()),
            "{headers:?}"
        );
    }
}

#[tokio::test]
async fn a_damaged_counter_refuses_those_who_need_it_and_nobody_who_waits_beside_them() {
    let hot = Hot::private().await;
    let minute = now().timestamp() / 60;
    assert!(flat(&hot, vec![key("bad", Some(9))]).await.unwrap().unwrap().is_admitted());
    let _: u64 =
        hot.run(&[b"HSET", hot.key(&format!("rate:{minute}:flat")).as_bytes(), b"key/bad", b"short"]).await;
    let callers: Vec<_> =
        ["a", "bad", "b", "bad", "a"].iter().map(|id| flat(&hot, vec![key(id, Some(9))])).collect();
    let mut answers = Vec::new();
    for caller in callers {
        answers.push(caller.await.unwrap());
    }
    for at in [1, 3] {
        assert!(matches!(&answers[at], Err(LiveRedisError::Damaged(_))), "{answers:?}");
    }
    for at in [0, 2, 4] {
        assert!(answers[at].as_ref().unwrap().is_admitted(), "{answers:?}");
    }
}

#[tokio::test]
async fn a_tree_and_flat_lists_that_share_a_partition_leave_each_others_scopes_whole() {
    let hot = Hot::shared().await;
    let tree = tree(Some(9));
    let plan = tree.plan(1).unwrap();
    let organization = || vec![(Scope::new("o", "x").unwrap(), Limits { rpm: Some(9), tpm: None })];
    let limited = Arc::new(tree.with_limits(1, Limits { rpm: Some(4), tpm: None }).unwrap());
    // What the key gave up at the organization is the tree's, whoever comes next.
    let first = hot.redis.admit_rate_plan_in("flat", &limited.plan(1).unwrap(), 1, now()).await.unwrap();
    assert!(first.is_admitted());
    assert!(hot.redis.admit_rates(vec![key("other", Some(9))], 1, now()).await.unwrap().is_admitted());
    let alone = hot.redis.admit_rates(organization(), 1, now()).await.unwrap();
    assert_eq!(alone.decision().admitted().unwrap().usage[0].rpm, 2);
    let third = hot.redis.admit_rate_plan_in("flat", &plan, 1, now()).await.unwrap();
    assert_eq!(third.decision().admitted().unwrap().usage[1].rpm, 3);
}

async fn with_server_clock(hot: &Hot) -> LiveRedis {
    let url = devstack::redis().unwrap().test().url().to_owned();
    let options =
        Options::default().with_prefix(hot.prefix.parse().unwrap()).with_window_clock(WindowClock::Redis);
    LiveRedis::open_with(url, options).await.unwrap()
}

#[tokio::test]
async fn gateways_whose_clocks_differ_share_the_servers_window() {
    let hot = Hot::shared().await;
    let tree = tree(Some(4));
    let plan = tree.plan(1).unwrap();
    let clock = || chrono::Utc::now();
    // The servers' minute must not end on the way, else the window is rightly another one.
    while clock().timestamp() % 60 > 50 {
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    let mut minutes = Vec::new();
    for (at, skew) in [0, 2, -2, 3600 * 24 * 365].into_iter().enumerate() {
        let redis = with_server_clock(&hot).await;
        let skewed = clock() + TimeDelta::seconds(skew);
        let answer = redis.admit_rate_plan(&plan, 1, skewed).await.unwrap();
        assert_eq!(answer.decision().admitted().unwrap().usage[0].rpm, at as u64 + 1, "skew {skew}");
        minutes.push(answer.minute());
        let again = redis.admit_rate_plans("other", &[(plan.clone(), 1)], skewed).await.unwrap();
        assert_eq!(again[0].as_ref().unwrap().minute(), minutes[0]);
        redis.refund(again[0].as_ref().unwrap().ticket().unwrap()).await.unwrap();
    }
    assert!(minutes.iter().all(|minute| *minute == clock().timestamp() / 60), "{minutes:?}");
    let refused = with_server_clock(&hot).await.admit_rate_plan(&plan, 1, clock()).await.unwrap();
    assert!(!refused.is_admitted());
    assert!((1..=60).contains(&refused.retry_after().unwrap()));
    // Another version of the tree is rebuilt in the server's minute too.
    let wider = Arc::new(tree.with_limits(0, Limits { rpm: Some(5), tpm: None }).unwrap());
    let redis = with_server_clock(&hot).await;
    let admitted =
        redis.admit_rate_plan(&wider.plan(1).unwrap(), 1, clock() + TimeDelta::hours(5)).await.unwrap();
    assert_eq!(admitted.decision().admitted().unwrap().usage[0].rpm, 5);
}
