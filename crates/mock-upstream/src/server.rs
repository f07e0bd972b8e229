//! The server: one thread with a runtime of its own, so that it can be told apart from who measures it.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::serve::ListenerExt;
use axum::{Json, Router};
use bytes::Bytes;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::json;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::behaviour::Behaviour;
use crate::journal::{Journal, JournalLine, Kind, Moment, Record};
use crate::refusal::Refusal;
use crate::{chat, embedding, tokens};

/// The largest request, in bytes.
const MAX_BODY_BYTES: usize = 16 << 20;

/// How a mock is to be.
#[derive(Debug)]
pub struct MockOptions {
    /// Where to listen; port 0 takes any that is free.
    pub listen: SocketAddr,
    /// From a request to the beginning of its answer.
    pub latency: Duration,
    /// From token to token of a stream. A whole answer comes at once.
    pub token_interval: Duration,
    /// The file that the journal is appended to.
    pub journal: Option<PathBuf>,
    /// What requests must show as their bearer; none asks for nothing.
    pub api_key: Option<SecretString>,
}

impl Default for MockOptions {
    /// Any free port of 127.0.0.1, 20 ms, 2 ms between tokens, no file, no key.
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            latency: Duration::from_millis(20),
            token_interval: Duration::from_millis(2),
            journal: None,
            api_key: None,
        }
    }
}

/// Why a mock did not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MockError {
    /// The address cannot be had.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The journal's file cannot be opened.
    #[error("cannot append to journal {}: {source}", path.display())]
    Journal {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// No thread or no runtime.
    #[error("cannot start the server's thread: {0}")]
    Thread(io::Error),
}

/// A running mock. It ends when dropped; what it is sending then is cut.
#[derive(Debug)]
pub struct MockUpstream {
    app: Arc<App>,
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What all requests share.
#[derive(Debug)]
pub(crate) struct App {
    latency: Duration,
    token_interval: Duration,
    api_key: Option<SecretString>,
    usual: RwLock<Behaviour>,
    journal: Arc<Journal>,
    requests: AtomicU64,
}

/// What the journal is told of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) model: &'a str,
    pub(crate) kind: Kind,
    pub(crate) stream: bool,
    pub(crate) prompt: u64,
    pub(crate) cached: u64,
}

impl MockUpstream {
    /// Starts a mock and returns when it accepts connections. May be called with or without a runtime.
    ///
    /// # Errors
    ///
    /// [`MockError`]: the address or the journal cannot be had.
    pub fn start(options: MockOptions) -> Result<Self, MockError> {
        let MockOptions { listen, latency, token_interval, journal, api_key } = options;
        let journal = Journal::open(journal.as_deref())
            .map_err(|source| MockError::Journal { path: journal.unwrap_or_default(), source })?;
        let app = Arc::new(App {
            latency,
            token_interval,
            api_key,
            usual: RwLock::default(),
            journal: Arc::new(journal),
            requests: AtomicU64::new(0),
        });
        let (stop, stopped) = oneshot::channel();
        let (tell, told) = mpsc::channel();
        let served = Arc::clone(&app);
        let thread = std::thread::Builder::new()
            .name("mock-upstream".to_owned())
            .spawn(move || serve(&served, listen, &tell, stopped))
            .map_err(MockError::Thread)?;
        let address = told.recv().unwrap_or_else(|_| Err(io::Error::other("the server's thread died")));
        let address = address.map_err(|source| MockError::Listen { address: listen, source })?;
        Ok(Self { app, address, stop: Some(stop), thread: Some(thread) })
    }

    /// `http://IP:PORT`; OpenAI's paths begin with `/v1` behind it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How all requests to come are answered, as far as they do not say themselves.
    pub fn control(&self, behaviour: Behaviour) {
        self.app.control(behaviour);
    }

    /// The journal's last 200,000 lines, oldest first.
    #[must_use]
    pub fn journal(&self) -> Vec<JournalLine> {
        self.app.journal.lines()
    }

    /// Ends it; what is being sent is cut, and the journal says so.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for MockUpstream {
    fn drop(&mut self) {
        self.app.journal.stop();
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(
    app: &Arc<App>,
    listen: SocketAddr,
    tell: &mpsc::Sender<io::Result<SocketAddr>>,
    stopped: oneshot::Receiver<()>,
) {
    tokens::load();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let _ = tell.send(Err(error));
            return;
        }
    };
    // Its connections are tasks of this runtime: they end with it.
    runtime.block_on(async {
        let listener = match TcpListener::bind(listen).await {
            Ok(listener) => listener,
            Err(error) => {
                let _ = tell.send(Err(error));
                return;
            }
        };
        let _ = tell.send(listener.local_addr());
        let listener = listener.tap_io(|connection| {
            // Without it, tokens would wait for each other's acknowledgements.
            let _ = connection.set_nodelay(true);
        });
        tokio::select! {
            _ = axum::serve(listener, router(Arc::clone(app))) => {}
            _ = stopped => {}
        }
    });
}

fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(chat::completions))
        .route("/v1/embeddings", post(embedding::embeddings))
        .route("/v1/models", get(models))
        .route("/control", post(control))
        .route("/journal", get(journal))
        .route("/livez", get(|| async { "alive\n" }))
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .with_state(app)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Control {
    mock: Option<String>,
}

async fn control(State(app): State<Arc<App>>, body: Bytes) -> Result<StatusCode, Refusal> {
    let control: Control =
        serde_json::from_slice(&body).map_err(|error| Refusal::bad_request(format!("mock: {error}")))?;
    let words = control.mock.unwrap_or_default();
    app.control(words.parse().map_err(|error| Refusal::bad_request(format!("{error}")))?);
    Ok(StatusCode::NO_CONTENT)
}

async fn journal(State(app): State<Arc<App>>) -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/jsonl")], app.journal.text())
}

async fn models(State(app): State<Arc<App>>, headers: HeaderMap) -> Result<impl IntoResponse, Refusal> {
    app.authorize(&headers)?;
    let model = json!({ "id": "mock", "object": "model", "created": 0, "owned_by": "mock-upstream" });
    Ok(Json(json!({ "object": "list", "data": [model] })))
}

impl App {
    pub(crate) fn authorize(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let Some(wanted) = &self.api_key else { return Ok(()) };
        let shown = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let key = shown.and_then(|value| value.strip_prefix("Bearer "));
        if key == Some(wanted.expose_secret()) { Ok(()) } else { Err(Refusal::unauthorized()) }
    }

    pub(crate) fn usual(&self) -> Behaviour {
        *self.usual.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn token_interval(&self) -> Duration {
        self.token_interval
    }

    pub(crate) fn next_id(&self) -> u64 {
        self.requests.fetch_add(1, Ordering::Relaxed)
    }

    /// Waits as long as this request, or else every request, is to wait.
    pub(crate) async fn wait(&self, asked: Option<Duration>) {
        let latency = asked.unwrap_or(self.latency);
        if !latency.is_zero() {
            tokio::time::sleep(latency).await;
        }
    }

    /// Writes down that a request has begun.
    pub(crate) fn begin(&self, headers: &HeaderMap, asked: Asked<'_>) -> Record {
        let request_id = headers.get("x-request-id").and_then(|value| value.to_str().ok());
        let line = JournalLine {
            event: Moment::Begin,
            request_id: request_id.map(str::to_owned),
            model: asked.model.to_owned(),
            kind: asked.kind,
            stream: asked.stream,
            prompt_tokens: asked.prompt,
            cached_tokens: asked.cached,
            completion_tokens: 0,
            outcome: None,
            received_at: chrono::Utc::now(),
            ended_at: None,
        };
        Record::begin(&self.journal, line)
    }

    fn control(&self, behaviour: Behaviour) {
        *self.usual.write().unwrap_or_else(PoisonError::into_inner) = behaviour;
    }
}
