//! What a host's metrics tell of its calls to Redis.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod common;

use std::collections::BTreeMap;

use common::{Hot, event, now, shard, team};
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use rate_plan::{Limits, Scope};
use spend_queue::SpendQueue;

/// Counters and gauges by name and labels, and how often a histogram was recorded.
fn taken(snapshotter: &Snapshotter) -> BTreeMap<String, f64> {
    let entries = snapshotter.snapshot().into_vec().into_iter();
    let text = |key: &metrics::Key| {
        let labels: Vec<_> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        format!("{} {}", key.name(), labels.join(" ")).trim_end().to_owned()
    };
    let number = |value| match value {
        DebugValue::Counter(count) => u32::try_from(count).unwrap().into(),
        DebugValue::Gauge(value) => value.into_inner(),
        DebugValue::Histogram(samples) => u32::try_from(samples.len()).unwrap().into(),
    };
    entries.map(|(key, _, _, value)| (text(key.key()), number(value))).collect()
}

#[tokio::test]
async fn calls_errors_degradations_and_waiting_callers_are_counted_by_call() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    // Of this thread, which is the only one that this test's runtime has.
    let _local = metrics::set_default_local_recorder(&recorder);
    let hot = Hot::private().await;
    let scopes = || vec![(Scope::new("key", "k").unwrap(), Limits { rpm: Some(1), tpm: None })];
    for _ in 0..3 {
        let _ = hot.redis.admit_rates(scopes(), 1, now()).await.unwrap();
    }
    hot.redis.enqueue(&event("a", 5)).await.unwrap();
    let _: i64 = hot.run(&[b"DEL", hot.key("hot").as_bytes()]).await;
    let _: String = hot.run(&[b"SET", hot.key("hot").as_bytes(), b"x"]).await;
    assert!(hot.redis.enqueue(&event("b", 5)).await.is_err());
    assert!(hot.redis.hot_spend(&team()).await.is_zero());
    assert_eq!(hot.redis.depth(shard()).await, Ok(1));

    let taken = taken(&snapshotter);
    let of = |name: &str| taken.get(name).copied().unwrap_or_else(|| panic!("no {name} in {taken:#?}"));
    assert!((of("tallyweir_redis_call_seconds call=admit") - 3.0).abs() < 0.5);
    assert!((of("tallyweir_redis_call_seconds call=enqueue") - 2.0).abs() < 0.5);
    assert!((of("tallyweir_redis_errors_total call=enqueue kind=refused") - 1.0).abs() < 0.5);
    assert!((of("tallyweir_redis_degradations_total call=hot_spend") - 1.0).abs() < 0.5);
    assert!((of("tallyweir_redis_waiting_calls") - 0.0).abs() < 0.5);
}
