//! The endpoints for machines that watch: `/metrics`, `/livez`, `/readyz`, `/status`.

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router};
use chrono::{DateTime, Utc};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use serde::Serialize;
use thiserror::Error;
use tokio::net::TcpListener;

use crate::board::{Board, Notices};

/// Upper bounds of the histograms of seconds: from a peek in the same rack to a commit that waits for a lock.
const SECONDS: [f64; 13] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// Upper bounds of the histogram of batch sizes.
const ENTRIES: [f64; 9] = [1.0, 10.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0, 10_000.0];
/// How often old samples are dropped although nobody asks for metrics.
const UPKEEP_EVERY: Duration = Duration::from_secs(30);

/// Why the endpoints cannot be offered.
#[derive(Debug, Error)]
pub enum HttpError {
    /// The address is taken or not this machine's.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// Metrics are collected by something else already.
    #[error("cannot collect metrics: {0}")]
    Metrics(#[from] BuildError),
}

/// The endpoints, ready to be served.
#[derive(Debug)]
pub struct Endpoints {
    listener: TcpListener,
    router: Router,
    handle: PrometheusHandle,
}

#[derive(Debug, Clone)]
struct Shown {
    board: Board,
    handle: PrometheusHandle,
}

#[derive(Debug, Serialize)]
struct Status {
    version: &'static str,
    now: DateTime<Utc>,
    ready: bool,
    /// Why it is not ready.
    unready: Vec<String>,
    /// What an operator should know all the same.
    remarks: Vec<String>,
    #[serde(flatten)]
    notices: Notices,
}

impl Endpoints {
    /// Listens, and collects this process's metrics from now on. Port 0 takes any free one.
    ///
    /// # Errors
    ///
    /// [`HttpError`] says what stands in the way.
    pub async fn bind(address: SocketAddr, board: Board) -> Result<Self, HttpError> {
        let listener =
            TcpListener::bind(address).await.map_err(|source| HttpError::Listen { address, source })?;
        let handle = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &SECONDS)?
            .set_buckets_for_metric(Matcher::Full("tallyweir_batch_entries".into()), &ENTRIES)?
            .install_recorder()?;
        let shown = Shown { board, handle: handle.clone() };
        let router = Router::new()
            .route("/metrics", get(metrics))
            .route("/livez", get(|| async { "alive\n" }))
            .route("/readyz", get(readyz))
            .route("/status", get(status))
            .with_state(shown);
        Ok(Self { listener, router, handle })
    }

    /// Where it listens.
    ///
    /// # Errors
    ///
    /// When the system does not say.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop` ends.
    ///
    /// # Errors
    ///
    /// When the listener fails for good.
    pub async fn serve(self, stop: impl Future<Output = ()> + Send + 'static) -> std::io::Result<()> {
        let handle = self.handle;
        let upkeep = tokio::spawn(async move {
            loop {
                tokio::time::sleep(UPKEEP_EVERY).await;
                handle.run_upkeep();
            }
        });
        let served = axum::serve(self.listener, self.router).with_graceful_shutdown(stop).await;
        upkeep.abort();
        served
    }
}

async fn metrics(State(shown): State<Shown>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], shown.handle.render())
}

/// 200 when it can work; 503 with a line a reason when it cannot. Remarks follow in either case.
async fn readyz(State(shown): State<Shown>) -> impl IntoResponse {
    let now = Utc::now();
    let notices = shown.board.read();
    let unready = notices.unready(now);
    let code = if unready.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let verdict = if unready.is_empty() { "ready" } else { "not ready" };
    let lines = std::iter::once(verdict.to_owned()).chain(unready).chain(notices.remarks(now));
    (code, lines.map(|line| line + "\n").collect::<String>())
}

async fn status(State(shown): State<Shown>) -> Json<Status> {
    let now = Utc::now();
    let notices = shown.board.read();
    let unready = notices.unready(now);
    Json(Status {
        version: env!("CARGO_PKG_VERSION"),
        now,
        ready: unready.is_empty(),
        unready,
        remarks: notices.remarks(now),
        notices,
    })
}
