//! What the flusher's own user lets it measure.

use devstack::watched_series;
use live_redis::LiveRedis;
use spend_queue::SpendQueue;

use crate::support::event;
use crate::{Running, as_roles, guarded, until};

const ALERTS: &str = include_str!("../../../../docs/operations/alerts.yml");
const METRICS: &str = include_str!("../../../../docs/operations/metrics.md");

#[tokio::test(flavor = "multi_thread")]
async fn every_series_that_a_rule_watches_is_there_when_the_flusher_runs_as_its_own_user() {
    let servers = guarded();
    let gateway = LiveRedis::open(servers.redis_url("gateway")).await.unwrap();
    let running = Running::start(as_roles(&servers, "flusher", "flusher"));
    gateway.enqueue(&event("a", 5)).await.unwrap();
    until("the hand-off", || running.get("/metrics").contains("tallyweir_events_settled_total 1"));
    for source in ["redis", "postgresql"] {
        let sampled = format!("tallyweir_last_sample_timestamp_seconds{{source=\"{source}\"}}");
        until(&sampled, || running.get("/metrics").contains(&sampled));
    }
    let metrics = running.get("/metrics");
    let watched = watched_series(ALERTS, METRICS, 'F');
    assert!(watched.len() > 15 && watched.contains("tallyweir_queue_quarantined"), "{watched:?}");
    let there = |name: &str| metrics.lines().any(|line| line.split(['{', ' ']).next() == Some(name));
    let missing: Vec<_> = watched.iter().filter(|name| !there(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let failed = |line: &&str| line.starts_with("tallyweir_redis_errors_total") && !line.ends_with(" 0");
    assert_eq!(metrics.lines().filter(failed).collect::<Vec<_>>(), [""; 0], "nothing is refused");
}
