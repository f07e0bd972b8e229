//! The endpoints for machines that watch: `/livez`, `/readyz`, `/metrics`.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State as Extracted;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::time::timeout;

use crate::record;
use crate::state::State;

/// How old the proof may be that tenants' configuration is current: beyond it a change may have been missed for long.
const STALE: Duration = Duration::from_secs(60);
/// How long Redis and PostgreSQL may take to answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// A spool is full when so many parts of a hundred are taken.
const FULL_PERCENT: u64 = 95;

/// Whether the process runs.
pub(crate) async fn livez() -> &'static str {
    "alive\n"
}

/// 200 when it can serve; 503 with a line a reason when it cannot.
pub(crate) async fn readyz(Extracted(state): Extracted<Arc<State>>) -> Response {
    let reasons = reasons(&state).await;
    let (code, verdict) = match reasons.is_empty() {
        true => (StatusCode::OK, "ready"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "not ready"),
    };
    let lines = std::iter::once(verdict.to_owned()).chain(reasons);
    (code, lines.map(|line| line + "\n").collect::<String>()).into_response()
}

async fn reasons(state: &State) -> Vec<String> {
    if state.shutdown.is_stopping() {
        return vec!["it is stopping".to_owned()];
    }
    let mut reasons = Vec::new();
    let redis = timeout(PATIENCE, state.redis.ping());
    let database = timeout(PATIENCE, state.ledger.ping());
    let (redis, database) = tokio::join!(redis, database);
    match redis {
        Ok(Ok(())) => {}
        Ok(Err(error)) => reasons.push(format!("Redis: {error}; nothing can be admitted")),
        Err(_) => reasons.push(format!("Redis does not answer within {PATIENCE:?}; nothing can be admitted")),
    }
    match database {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            reasons.push(format!("PostgreSQL: {error}; only keys that were here lately are known"));
        }
        Err(_) => reasons.push(format!(
            "PostgreSQL does not answer within {PATIENCE:?}; only keys that were here lately are known"
        )),
    }
    let staleness = state.watch.staleness();
    if staleness > STALE {
        reasons.push(format!("limits and keys were last known to be current {} s ago", staleness.as_secs()));
    }
    if let Some(spool) = state.bills.spool() {
        let status = spool.status();
        if status.bytes.saturating_mul(100) > status.max_bytes.saturating_mul(FULL_PERCENT) {
            reasons.push(format!("the spool is full: {} of {} bytes", status.bytes, status.max_bytes));
        }
    }
    reasons
}

/// The metrics of this process, in Prometheus's text form.
pub(crate) async fn metrics() -> Response {
    match record::recorder() {
        Some(recorder) => {
            ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], recorder.render())
                .into_response()
        }
        None => (StatusCode::NOT_FOUND, "another recorder collects this process's metrics\n").into_response(),
    }
}
