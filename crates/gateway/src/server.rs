//! The HTTP server: connections with bounded heads, and the routes.

use std::any::Any;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tower_http::catch_panic::CatchPanicLayer;

use crate::error::ApiError;
use crate::state::{Parts, State};
use crate::{announce, headers, health, idempotency, models, record, serve};

/// The wait after a connection could not be accepted: no more files can be opened, most often.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);
/// How often old samples are dropped although nobody asks for metrics.
const UPKEEP_EVERY: Duration = Duration::from_secs(30);

/// A gateway that serves. Dropping it without [`Gateway::stop`] leaves its tasks running.
#[derive(Debug)]
pub struct Gateway {
    address: SocketAddr,
    state: Arc<State>,
    tasks: Vec<JoinHandle<()>>,
}

/// Why a gateway does not serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The address cannot be had.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// The client for upstreams cannot be made: no authorities of certificates were found, most often.
    #[error("cannot make the client for upstreams: {0}")]
    Upstreams(reqwest::Error),
}

impl Gateway {
    /// Listens and serves. Port 0 takes any free one. Metrics of the whole process are collected from now on. Must be called
    /// within a tokio runtime.
    ///
    /// # Errors
    ///
    /// [`StartError`].
    pub async fn start(parts: Parts, listen: SocketAddr) -> Result<Self, StartError> {
        // Two crates of the same process may choose two providers; the first choice stands.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let recorder = record::recorder();
        let failed = |source| StartError::Listen { address: listen, source };
        let listener = TcpListener::bind(listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let state = Arc::new(State::new(parts).map_err(StartError::Upstreams)?);
        record::announce(state.bills.spool());
        let stopping = state.shutdown.stopping();

        let (telemetry, stop) = (Arc::clone(&state), stopping.clone());
        let (bills, end) = (Arc::clone(&state), stopping.clone());
        let mut tasks = vec![
            tokio::spawn(accept(listener, Arc::clone(&state))),
            tokio::spawn(async move { telemetry.telemetry.run(stop).await }),
            tokio::spawn(async move { bills.bills.replay(end).await }),
        ];
        if state.bills.spool().is_some() {
            let (told, end) = (Arc::clone(&state), state.shutdown.stopping());
            tasks.push(tokio::spawn(async move {
                if let Some(spool) = told.bills.spool() {
                    announce::run(&told.ledger, spool, end).await;
                }
            }));
        }
        if let Some(recorder) = recorder {
            tasks.push(tokio::spawn(async move {
                while stopping.run_until_cancelled(tokio::time::sleep(UPKEEP_EVERY)).await.is_some() {
                    recorder.run_upkeep();
                }
            }));
        }
        Ok(Self { address, state, tasks })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts nothing more, lets what is under way end within `grace`, cuts the rest, and returns when every bill is safe.
    pub async fn stop(self, grace: Duration) {
        self.state.shutdown.run(grace, self.state.billing_deadline()).await;
        for task in self.tasks {
            if let Err(error) = task.await {
                tracing::error!(%error, "a task of the gateway died");
            }
        }
        self.state.telemetry.write().await;
        if let Some(spool) = self.state.bills.spool() {
            announce::last(&self.state.ledger, spool).await;
            spool.close().await;
        }
    }
}

fn router(state: Arc<State>) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(serve::chat))
        .route("/v1/embeddings", post(serve::embeddings))
        .route("/v1/models", get(models::models))
        .route("/livez", get(health::livez))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(health::metrics))
        .fallback(|| async { alone(ApiError::not_found()) })
        .method_not_allowed_fallback(|| async { alone(ApiError::method_not_allowed()) })
        .layer(CatchPanicLayer::custom(|_: Box<dyn Any + Send>| alone(ApiError::internal())))
        .with_state(state)
}

/// A refusal outside the way of a request.
fn alone(error: ApiError) -> Response {
    let mut response = error.into_response();
    headers::put(response.headers_mut(), headers::REQUEST_ID, &idempotency::new_id());
    response
}

async fn accept(listener: TcpListener, state: Arc<State>) {
    let stopping = state.shutdown.stopping();
    let permits = Arc::new(Semaphore::new(state.config.limits.connections));
    let router = router(Arc::clone(&state));
    loop {
        let next = async {
            // Never closed.
            let permit = Arc::clone(&permits).acquire_owned().await.ok()?;
            Some((permit, listener.accept().await))
        };
        let Some(Some((permit, accepted))) = stopping.run_until_cancelled(next).await else { return };
        match accepted {
            Ok((stream, _)) => {
                let (router, state) = (router.clone(), Arc::clone(&state));
                let connections = state.shutdown.connections.clone();
                connections.spawn(async move {
                    connection(stream, router, &state).await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, router: Router, state: &State) {
    // Parts of a stream are small and must not wait for each other.
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let limits = &state.config.limits;
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.read_timeout())
        .max_buf_size(limits.header_bytes)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut served = pin!(served);
    let stopping = state.shutdown.stopping();
    let ended = tokio::select! {
        ended = served.as_mut() => ended,
        () = stopping.cancelled() => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = ended {
        // A client that left, or sent what is no HTTP.
        tracing::debug!(%error, "a connection ended");
    }
}
