//! Many gateways that meet another version of a tree at once: one of them rebuilds, in its turn.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{Hot, now};
use futures_util::future::join_all;
use live_redis::LiveRedis;
use rate_plan::{Limits, Node, RatePlan, RateTree, Scope};

const GATEWAYS: usize = 50;
const KEYS: usize = 9_999;

/// An organization and its keys.
fn tree(rpm: u64) -> Arc<RateTree> {
    let node = |kind: &str, n: usize, parent, rpm| Node {
        scope: Scope::new(kind, format!("{n}")).unwrap(),
        parent,
        limits: Limits { rpm: Some(rpm), tpm: None },
    };
    let mut nodes = vec![node("organization", 0, None, 1_000_000)];
    nodes.extend((0..KEYS).map(|n| node("key", n, Some(0), rpm)));
    Arc::new(RateTree::new(nodes).unwrap())
}

fn counters(hot: &Hot, partition: &str) -> String {
    hot.key(&format!("rate:{}:{partition}", now().timestamp() / 60))
}

/// Counters of this minute, each key used once, as an earlier version of the tree has left them.
async fn used(hot: &Hot, partition: &str) {
    let mut command = redis::cmd("HSET");
    command.arg(counters(hot, partition)).arg("v").arg(&[7_u8; 65][..]);
    let value = |rpm: u64| [rpm, 0, 0, 0].iter().flat_map(|number| number.to_be_bytes()).collect::<Vec<u8>>();
    command.arg("organization/0").arg(value(KEYS as u64));
    for n in 0..KEYS {
        command.arg(format!("key/{n}")).arg(value(1));
    }
    command.query_async::<u64>(&mut hot.raw.clone()).await.unwrap();
}

/// What the server has spent on scripts and on telling fields since the last time, in microseconds; and how often it told fields.
async fn spent(hot: &Hot) -> (u64, u64) {
    let info: String = hot.run(&[b"INFO", b"commandstats"]).await;
    let _: String = hot.run(&[b"CONFIG", b"RESETSTAT"]).await;
    let of = |command: &str, what: &str| -> u64 {
        let line =
            info.lines().find(|line| line.starts_with(&format!("cmdstat_{command}:"))).unwrap_or_default();
        let number = line.split([':', ',']).find_map(|part| part.strip_prefix(&format!("{what}=")));
        number.map_or(0, |number| number.parse().unwrap())
    };
    (of("evalsha", "usec") + of("eval", "usec") + of("hkeys", "usec"), of("hkeys", "calls"))
}

async fn admit(redis: &LiveRedis, partition: &str, plan: &RatePlan) -> u64 {
    let answer = redis.admit_rate_plan_in(partition, plan, 1, now()).await.unwrap();
    answer.decision().admitted().unwrap().usage[1].rpm
}

#[tokio::test]
async fn fifty_gateways_that_meet_another_version_cost_one_rebuild() {
    let hot = Hot::private().await;
    let plan = tree(90).plan(1).unwrap();
    let gateways =
        join_all((0..GATEWAYS).map(|_| hot.another(|options| options.with_hot_connections(1)))).await;
    // The scripts are loaded by a rebuild that is not measured.
    used(&hot, "first").await;
    admit(&hot.redis, "first", &plan).await;
    used(&hot, "one").await;
    spent(&hot).await;
    assert_eq!(admit(&hot.redis, "one", &plan).await, KEYS as u64 + 1);
    let (one, told) = spent(&hot).await;
    assert_eq!(told, 1);

    used(&hot, "fifty").await;
    spent(&hot).await;
    let mut usage = join_all(gateways.iter().map(|gateway| admit(gateway, "fifty", &plan))).await;
    let (fifty, told) = spent(&hot).await;
    // A turn that its holder does not use in time, on a machine that is busy, costs one more.
    assert!(told <= 2, "{told} rebuilds");
    assert!(fifty < 4 * one, "{fifty} us for {GATEWAYS} gateways, {one} us for one");
    usage.sort_unstable();
    assert_eq!(usage, (1..=GATEWAYS).map(|n| (KEYS + n) as u64).collect::<Vec<_>>());
    let turn: u64 = hot.run(&[b"HEXISTS", counters(&hot, "fifty").as_bytes(), b"t"]).await;
    assert_eq!(turn, 0, "the turn has ended");

    // Counters that are gone are begun anew by whoever comes first.
    let _: u64 = hot.run(&[b"DEL", counters(&hot, "fifty").as_bytes()]).await;
    spent(&hot).await;
    join_all(gateways.iter().map(|gateway| admit(gateway, "fifty", &plan))).await;
    let (fifty, told) = spent(&hot).await;
    assert!(told == 0 && fifty < one, "{told} rebuilds, {fifty} us");
}

#[tokio::test]
async fn two_versions_that_meet_both_get_on() {
    let hot = Hot::private().await;
    let plans = [tree(90).plan(1).unwrap(), tree(80).plan(1).unwrap()];
    used(&hot, "two").await;
    let gateways = join_all((0..6).map(|_| hot.another(|options| options))).await;
    let admitted =
        gateways.iter().zip(plans.iter().cycle()).map(|(gateway, plan)| admit(gateway, "two", plan));
    let mut usage = join_all(admitted).await;
    usage.sort_unstable();
    assert_eq!(usage, (1..=6).map(|n| (KEYS + n) as u64).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_turn_whose_holder_has_gone_ends_by_itself() {
    let hot = Hot::private().await;
    let plan = tree(90).plan(1).unwrap();
    for ends_in in [300_i64, -1, 3_600_000] {
        used(&hot, "gone").await;
        let (seconds, micros): (i64, i64) = hot.run(&[b"TIME"]).await;
        let ends = (seconds * 1_000 + micros / 1_000 + ends_in).to_string();
        let _: u64 = hot.run(&[b"HSET", counters(&hot, "gone").as_bytes(), b"t", ends.as_bytes()]).await;
        let admission = admit(&hot.redis, "gone", &plan);
        let usage = tokio::time::timeout(Duration::from_secs(10), admission).await.unwrap();
        assert_eq!(usage, KEYS as u64 + 1);
    }
}
