//! Metrics that exist before anything happens, so that a rule on a counter sees its first event.
//!
//! A counter that begins its life with its first event has no earlier value that Prometheus could compare it with. What each
//! name means stands in `docs/operations/metrics.md`.

use chrono::{DateTime, Utc};
use iam_ledger::PoolStatus;
use metrics::{counter, gauge};
use spend_queue::Shard;

use crate::ledger::NO_CLASS;

/// Classes of SQLSTATE that a flusher may meet (PostgreSQL's appendix A names them), and no answer at all.
const CLASSES: [&str; 14] =
    ["08", "22", "23", "25", "28", "40", "42", "53", "54", "55", "57", "58", "XX", NO_CLASS];
/// The calls to Redis that a flusher makes.
const CALLS: [&str; 4] = ["peek", "ack", "reindex", "queue_glance"];
/// What may go wrong with them.
const KINDS: [&str; 8] =
    ["timeout", "connection", "unavailable", "refused", "answer", "damaged", "unproven", "shard_count"];

/// Sets this process's counters to zero under all labels that are known beforehand, and says which build it is. Call it once,
/// when metrics are collected.
pub fn announce(sources: &[Shard]) {
    gauge!("tallyweir_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    announce_batches(sources);
    announce_servers();
}

fn announce_batches(sources: &[Shard]) {
    for shard in sources {
        for kind in ["transient", "operator"] {
            counter!("tallyweir_step_failures_total", "shard" => shard.to_string(), "kind" => kind)
                .increment(0);
        }
    }
    for kind in ["conflict", "refused"] {
        counter!("tallyweir_dead_letters_total", "kind" => kind).increment(0);
    }
    for counter in [
        counter!("tallyweir_commits_total"),
        counter!("tallyweir_events_settled_total"),
        counter!("tallyweir_events_duplicate_total"),
        counter!("tallyweir_events_conflict_total"),
        counter!("tallyweir_settled_picodollars_total"),
        counter!("tallyweir_acks_changed_total"),
        counter!("tallyweir_holds_expired_total"),
        counter!("tallyweir_flush_log_pruned_total"),
    ] {
        counter.increment(0);
    }
}

fn announce_servers() {
    for class in CLASSES {
        counter!("tallyweir_postgresql_errors_total", "class" => class).increment(0);
    }
    for call in CALLS {
        for kind in KINDS {
            counter!("tallyweir_redis_errors_total", "call" => call, "kind" => kind).increment(0);
        }
    }
    for counter in [
        counter!("tallyweir_redis_reconnects_total"),
        counter!("tallyweir_redis_index_scans_total"),
        counter!("tallyweir_redis_index_rebuilds_total"),
    ] {
        counter.increment(0);
    }
}

/// PostgreSQL, or the way to it, failed.
pub(crate) fn postgresql_error(class: &str) {
    counter!("tallyweir_postgresql_errors_total", "class" => class.to_owned()).increment(1);
}

/// A batch was committed.
pub(crate) fn committed_at(now: DateTime<Utc>) {
    gauge!("tallyweir_last_commit_timestamp_seconds").set(seconds(now));
}

/// All gauges that come from this server were written.
pub(crate) fn sampled(source: &'static str, now: DateTime<Utc>) {
    gauge!("tallyweir_last_sample_timestamp_seconds", "source" => source).set(seconds(now));
}

/// How the pool of connections to PostgreSQL stands.
pub(crate) fn pool(status: PoolStatus) {
    let used = status.connections.saturating_sub(status.idle);
    gauge!("tallyweir_postgresql_connections", "state" => "idle").set(f64::from(status.idle));
    gauge!("tallyweir_postgresql_connections", "state" => "used").set(f64::from(used));
    gauge!("tallyweir_postgresql_connections_max").set(f64::from(status.max_connections));
}

/// Seconds since the epoch, to the millisecond.
#[allow(clippy::cast_precision_loss, reason = "milliseconds of this age are below 2^53")]
fn seconds(at: DateTime<Utc>) -> f64 {
    at.timestamp_millis() as f64 / 1000.0
}
