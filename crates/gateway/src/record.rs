//! Metrics of requests. Labels are few and fixed: paths, statuses, codes, deployments; never a key or a model that a client
//! made up.
//!
//! | name | type | labels |
//! |---|---|---|
//! | `tallyweir_gateway_requests_total` | counter | `route`, `status` |
//! | `tallyweir_gateway_request_seconds` | histogram, until the head of the answer | `route` |
//! | `tallyweir_gateway_overhead_seconds` | histogram, until the head of the answer, without the upstream's time | |
//! | `tallyweir_gateway_refusals_total` | counter | `code` |
//! | `tallyweir_gateway_admissions_total` | counter | `decision`, `dimension` |
//! | `tallyweir_gateway_upstream_calls_total` | counter | `deployment`, `outcome` |
//! | `tallyweir_gateway_upstream_seconds` | histogram, until the answer or the first part of a stream | `deployment` |
//! | `tallyweir_gateway_tokens_total` | counter | `kind` |
//! | `tallyweir_gateway_billed_picodollars_total` | counter | |
//! | `tallyweir_gateway_bills_total` | counter | `to` |
//! | `tallyweir_gateway_streams_open` | gauge | |
//! | `tallyweir_gateway_client_departures_total` | counter of streams | |

use std::sync::{LazyLock, OnceLock};
use std::time::{Duration, Instant};

use axum::response::Response;
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use spend_spool::Spool;

/// Upper bounds of the histograms of seconds: from the gateway's own time to the longest answers.
const SECONDS: [f64; 16] =
    [0.000_25, 0.000_5, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0, 120.0];

/// The calls to Redis that every request or bill needs, and those whose failure a rule watches.
const CALLS: [&str; 6] = ["admit", "settle", "refund", "enqueue", "pending_all", "swap_affinity"];
/// What may go wrong with them.
const KINDS: [&str; 8] =
    ["timeout", "connection", "unavailable", "refused", "answer", "damaged", "unproven", "shard_count"];
/// Calls that answer a fallback.
const PERMISSIVE: [&str; 3] = ["record_failure", "add_latency", "add_usage"];

static RECORDER: OnceLock<Option<PrometheusHandle>> = OnceLock::new();
static OVERHEAD: LazyLock<metrics::Histogram> =
    LazyLock::new(|| metrics::histogram!("tallyweir_gateway_overhead_seconds"));

/// Collects this process's metrics from now on, once; `None` when another recorder was there before.
pub(crate) fn recorder() -> Option<&'static PrometheusHandle> {
    RECORDER.get_or_init(|| install().ok()).as_ref()
}

fn install() -> Result<PrometheusHandle, BuildError> {
    PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &SECONDS)?
        .install_recorder()
}

/// Sets to zero what rules watch of Redis and of the spool, under the labels that are known beforehand: a counter that begins its
/// life with its first event has no earlier value to be compared with, and a series that is not there looks as if all were well.
pub(crate) fn announce(spool: Option<&Spool>) {
    for call in CALLS {
        for kind in KINDS {
            metrics::counter!("tallyweir_redis_errors_total", "call" => call, "kind" => kind).increment(0);
        }
    }
    for call in PERMISSIVE {
        metrics::counter!("tallyweir_redis_degradations_total", "call" => call).increment(0);
    }
    metrics::counter!("tallyweir_redis_reconnects_total").increment(0);
    metrics::counter!("tallyweir_redis_index_scans_total").increment(0);
    metrics::counter!("tallyweir_redis_index_rebuilds_total").increment(0);
    let Some(spool) = spool else { return };
    // What an earlier process left was counted before anybody listened.
    let status = spool.status();
    #[expect(clippy::cast_precision_loss, reason = "a gauge is for people")]
    {
        metrics::gauge!("tallyweir_spool_events").set(status.events as f64);
        metrics::gauge!("tallyweir_spool_bytes").set(status.bytes as f64);
    }
    for reason in ["full", "storage", "not_rebuildable"] {
        metrics::counter!("tallyweir_spool_refused_total", "reason" => reason).increment(0);
    }
    metrics::counter!("tallyweir_spool_spooled_total").increment(0);
    metrics::counter!("tallyweir_spool_replayed_total").increment(0);
    metrics::counter!("tallyweir_spool_conflicts_total").increment(0);
    metrics::counter!("tallyweir_spool_set_aside_total").increment(0);
}

/// A request was answered, or its stream has begun.
pub(crate) fn request(route: &'static str, response: &Response, began: Instant) {
    let status = response.status().as_u16().to_string();
    metrics::counter!("tallyweir_gateway_requests_total", "route" => route, "status" => status).increment(1);
    metrics::histogram!("tallyweir_gateway_request_seconds", "route" => route).record(began.elapsed());
}

/// The gateway's own time in a request.
pub(crate) fn overhead(time: Duration) {
    OVERHEAD.record(time);
}
