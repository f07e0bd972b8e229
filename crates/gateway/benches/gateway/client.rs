//! A client that keeps its connections, and what it saw of an answer.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::shape::{Shape, Upstream, has_text};

/// Servers close connections that are idle for longer, which must not fall on a request.
const IDLE: Duration = Duration::from_secs(5);
/// An answer that has not come by then never comes.
const GIVE_UP: Duration = Duration::from_secs(60);

/// Who is asked, with its keys in turn.
pub(crate) struct Target {
    address: SocketAddr,
    bearers: Vec<String>,
    next: AtomicUsize,
    answers: AtomicU64,
    idle: Mutex<Vec<(SendRequest<Full<Bytes>>, Instant)>>,
}

/// When the parts of an answer came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    /// The first text of a stream; the end of a whole answer.
    pub(crate) first: Instant,
    pub(crate) end: Instant,
}

impl Target {
    pub(crate) fn new(address: SocketAddr, bearers: Vec<String>) -> Arc<Self> {
        Arc::new(Self {
            address,
            bearers,
            next: AtomicUsize::new(0),
            answers: AtomicU64::new(0),
            idle: Mutex::default(),
        })
    }

    /// Whole answers that it has given.
    pub(crate) fn answers(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }

    /// Asks once; anything but a whole answer with status 200 is an error.
    pub(crate) async fn ask(&self, shape: Shape, upstream: Upstream) -> Result<Seen> {
        tokio::time::timeout(GIVE_UP, self.exchange(shape, upstream)).await.context("no answer came")?
    }

    async fn exchange(&self, shape: Shape, upstream: Upstream) -> Result<Seen> {
        let mut connection = self.connection().await?;
        let response = connection.send_request(self.request(shape, upstream)?).await?;
        let seen = read(response, shape).await?;
        self.answers.fetch_add(1, Ordering::Relaxed);
        self.idle().push((connection, Instant::now()));
        Ok(seen)
    }

    fn request(&self, shape: Shape, upstream: Upstream) -> Result<Request<Full<Bytes>>> {
        let mut request = Request::post("/v1/chat/completions")
            .header(HOST, self.address.to_string())
            .header(CONTENT_TYPE, "application/json");
        if !self.bearers.is_empty() {
            let nth = self.next.fetch_add(1, Ordering::Relaxed) % self.bearers.len();
            request = request.header(AUTHORIZATION, format!("Bearer {}", self.bearers[nth]));
        }
        Ok(request.body(Full::new(shape.body(upstream)))?)
    }

    /// The one that was used last, or a new one.
    async fn connection(&self) -> Result<SendRequest<Full<Bytes>>> {
        while let Some((mut connection, since)) = self.pop() {
            if since.elapsed() < IDLE && connection.ready().await.is_ok() {
                return Ok(connection);
            }
        }
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(sender)
    }

    fn pop(&self) -> Option<(SendRequest<Full<Bytes>>, Instant)> {
        self.idle().pop()
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<(SendRequest<Full<Bytes>>, Instant)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sums of its metrics by name and labels.
    pub(crate) async fn metrics(&self) -> Result<HashMap<String, f64>> {
        let mut connection = self.connection().await?;
        let request = Request::get("/metrics").header(HOST, self.address.to_string());
        let response = connection.send_request(request.body(Full::default())?).await?;
        let text = response.into_body().collect().await?.to_bytes();
        let text = std::str::from_utf8(&text)?;
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        samples
            .filter_map(|line| line.rsplit_once(' '))
            .map(|(name, value)| Ok((name.to_owned(), value.parse()?)))
            .collect()
    }
}

async fn read(response: Response<Incoming>, shape: Shape) -> Result<Seen> {
    let status = response.status();
    let mut body = response.into_body();
    if !status.is_success() {
        let text = body.collect().await?.to_bytes();
        bail!("answered {status}: {}", String::from_utf8_lossy(&text));
    }
    let (mut first, mut last) = (None, Bytes::new());
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        if first.is_none() && shape == Shape::Stream && has_text(&data) {
            first = Some(Instant::now());
        }
        if !data.is_empty() {
            last = data;
        }
    }
    let end = Instant::now();
    ensure!(shape.is_end(&last), "an answer ended with {:?}", String::from_utf8_lossy(&last));
    ensure!(shape == Shape::Plain || first.is_some(), "a stream without text");
    Ok(Seen { first: first.unwrap_or(end), end })
}
