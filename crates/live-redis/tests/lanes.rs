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
