//! The way to the collector: HTTP/1.1, TLS by rustls.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use async_trait::async_trait;
use axum::http::{Request, Response, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry_http::{Bytes, HttpClient, HttpError};
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use tokio::runtime::Handle;
use tokio::time::timeout;

/// The longest wait for one answer. An answer that comes later is as good as none.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// The longest answer that is read, in bytes; a collector's has some ten.
const LONGEST_ANSWER: usize = 64 * 1024;

type Connections = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// Sends requests on the flusher's runtime, since the exporter's thread has none.
#[derive(Debug, Clone)]
pub(super) struct CollectorClient {
    connections: Connections,
    runtime: Handle,
    /// Whether the last request failed: it is logged once, not every few seconds.
    failing: Arc<AtomicBool>,
}

impl CollectorClient {
    /// A client for this URL. For `https` it trusts the system's authorities.
    pub(super) fn new(url: &Uri) -> Result<Self> {
        Ok(Self {
            connections: Client::builder(TokioExecutor::new()).build(connector(url)?),
            runtime: Handle::try_current().context("sending traces")?,
            failing: Arc::new(AtomicBool::new(false)),
        })
    }

    fn report(&self, answer: Result<&Response<Bytes>, &HttpError>) {
        let problem = match answer {
            Ok(response) if response.status().is_success() => None,
            Ok(response) => Some(format!("it answers {}", response.status())),
            Err(error) => Some(root_cause(&**error)),
        };
        match (problem, self.failing.load(Ordering::Relaxed)) {
            (Some(problem), false) => {
                tracing::warn!(problem, "the collector does not take spans; they are dropped until it does");
                self.failing.store(true, Ordering::Relaxed);
            }
            (None, true) => {
                tracing::info!("the collector takes spans again");
                self.failing.store(false, Ordering::Relaxed);
            }
            _ => {}
        }
    }
}

/// Without authorities where none are asked, so that a machine that has none can still send in plain.
fn connector(url: &Uri) -> Result<HttpsConnector<HttpConnector>> {
    let builder = HttpsConnectorBuilder::new();
    let provider = ring::default_provider();
    let builder = if url.scheme_str() == Some("https") {
        let roots =
            "--otlp-endpoint: an https:// URL needs certificate authorities, and the system's cannot be read";
        builder.with_provider_and_native_roots(provider).context(roots)?
    } else {
        let versions =
            ClientConfig::builder_with_provider(provider.into()).with_safe_default_protocol_versions();
        let nobody = versions.context("preparing TLS")?.with_root_certificates(RootCertStore::empty());
        builder.with_tls_config(nobody.with_no_client_auth())
    };
    Ok(builder.https_or_http().enable_http1().build())
}

#[async_trait]
impl HttpClient for CollectorClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let call = send(self.connections.clone(), request.map(Full::new));
        // Not before it runs there: this thread has no clock of a runtime's.
        let bounded = async { timeout(ANSWER_WITHIN, call).await };
        let answer = match self.runtime.spawn(bounded).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => {
                Err(io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {ANSWER_WITHIN:?}"))
                    .into())
            }
            // The runtime ends, and this process with it.
            Err(error) => return Err(error.into()),
        };
        self.report(answer.as_ref());
        answer
    }
}

async fn send(connections: Connections, request: Request<Full<Bytes>>) -> Result<Response<Bytes>, HttpError> {
    let (head, body) = connections.request(request).await?.into_parts();
    let body = Limited::new(body, LONGEST_ANSWER).collect().await?.to_bytes();
    Ok(Response::from_parts(head, body))
}

/// What is really wrong, below the layers that only say that something is.
fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}
