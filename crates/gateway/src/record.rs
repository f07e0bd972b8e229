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

/// Upper bounds of the histograms of seconds: from the gateway's own time to the longest answers.
const SECONDS: [f64; 16] =
    [0.000_25, 0.000_5, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0, 120.0];

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
