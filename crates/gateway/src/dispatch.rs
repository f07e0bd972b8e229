//! Step 7: the call to an upstream, and to one other if the first fails before any output.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use axum::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use bytes::{Bytes, BytesMut};
use reqwest::Response;

use crate::answer::Answer;
use crate::call::Call;
use crate::config::{Deployment, Limits};
use crate::error::ApiError;
use crate::headers::REQUEST_ID;
use crate::route;
use crate::sse::{self, Events};

/// How many deployments one request may be sent to.
const ATTEMPTS: usize = 2;
/// The largest error of an upstream that is passed on, in bytes.
const MAX_REFUSAL_BYTES: usize = 64 << 10;
/// Answers of an upstream that are about the gateway's own account and not for its clients; the texts of the first two may
/// hold parts of its key.
const OWN_AFFAIRS: [StatusCode; 4] = [
    StatusCode::UNAUTHORIZED,
    StatusCode::FORBIDDEN,
    StatusCode::PROXY_AUTHENTICATION_REQUIRED,
    StatusCode::TOO_MANY_REQUESTS,
];

/// The connections to all upstreams.
#[derive(Debug)]
pub(crate) struct Upstreams {
    client: reqwest::Client,
    limits: Limits,
}

/// An upstream that has begun to answer.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) deployment: Arc<Deployment>,
    pub(crate) reply: Reply,
    /// From the request to the answer, or to the first part of a stream.
    pub(crate) latency: Duration,
}

/// An answer, or the beginning of one.
#[derive(Debug)]
pub(crate) enum Reply {
    /// A whole answer, which is JSON of the right form.
    Whole(Bytes),
    /// A stream whose first event with data is here.
    Stream(Box<Opened>),
}

/// Nothing was produced that anybody has seen.
#[derive(Debug)]
pub(crate) enum NotServed {
    /// No deployment answered.
    Failed(ApiError),
    /// An upstream refuses the request itself; its answer is passed on.
    Refused {
        /// Whose.
        deployment: Arc<Deployment>,
        /// 400 to 499.
        status: StatusCode,
        /// As it came.
        body: Bytes,
    },
}

/// A stream and what was read of it.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) response: Response,
    pub(crate) events: Events,
    /// Cut out already, and not looked at.
    pub(crate) first: Bytes,
}

/// Why an upstream gave nothing that can be used.
enum Failure {
    /// It could not be reached, or broke off.
    Transport,
    /// It answered with this error.
    Status(StatusCode),
    /// It did not answer in time.
    Timeout,
    /// Its answer is none.
    Malformed,
    /// It refuses the request, and so would any other.
    Refusal { status: StatusCode, body: Bytes },
}

impl Failure {
    /// Whether another deployment may be asked: not after a time-out, since the first may still be at work.
    const fn leaves_time(&self) -> bool {
        matches!(self, Self::Transport | Self::Status(_) | Self::Malformed)
    }

    const fn status(&self) -> Option<u16> {
        match self {
            Self::Status(status) => Some(status.as_u16()),
            _ => None,
        }
    }

    /// For metrics and logs.
    const fn as_str(&self) -> &'static str {
        match self {
            Self::Transport => "transport",
            Self::Status(_) => "status",
            Self::Timeout => "timeout",
            Self::Malformed => "malformed",
            Self::Refusal { .. } => "refused",
        }
    }
}

/// Sends the call to the deployments in their order until one answers, twice at most.
pub(crate) async fn dispatch(call: &Call, affinity: Option<&str>) -> Result<Served, NotServed> {
    let state = &call.state;
    let hints = state.telemetry.hints().await;
    let deployments = route::order(&call.asked.model.deployments, &hints, affinity);
    let mut told = ApiError::upstream();
    for deployment in deployments.into_iter().take(ATTEMPTS) {
        let began = Instant::now();
        let reply = tokio::select! {
            biased;
            () = state.shutdown.cut() => return Err(NotServed::Failed(ApiError::shutting_down())),
            reply = state.upstreams.ask(call, deployment) => reply,
        };
        let latency = began.elapsed();
        record(deployment, reply.as_ref().map_or_else(Failure::as_str, |_| "answered"), latency);
        let deployment = Arc::clone(deployment);
        let failure = match reply {
            Ok(reply) => return Ok(Served { deployment, reply, latency }),
            Err(Failure::Refusal { status, body }) => {
                return Err(NotServed::Refused { deployment, status, body });
            }
            Err(failure) => failure,
        };
        tracing::warn!(
            deployment = &*deployment.id,
            status = failure.status(),
            "an upstream failed: {}",
            failure.as_str()
        );
        state.telemetry.failed(&deployment.id, &state.config.routing).await;
        if !failure.leaves_time() {
            told = ApiError::upstream_timeout();
            break;
        }
    }
    Err(NotServed::Failed(told))
}

impl Upstreams {
    pub(crate) fn new(limits: &Limits) -> Result<Self, reqwest::Error> {
        let client = reqwest::Client::builder()
            .connect_timeout(limits.upstream_connect_timeout())
            .redirect(reqwest::redirect::Policy::none())
            // A request is repeated by `dispatch` or not at all.
            .retry(reqwest::retry::never())
            .no_proxy()
            .build()?;
        Ok(Self { client, limits: *limits })
    }

    async fn ask(&self, call: &Call, deployment: &Deployment) -> Result<Reply, Failure> {
        let time = self.limits.upstream_timeout();
        tokio::time::timeout(time, self.exchange(call, deployment)).await.unwrap_or(Err(Failure::Timeout))
    }

    async fn exchange(&self, call: &Call, deployment: &Deployment) -> Result<Reply, Failure> {
        let mut request = self
            .client
            .post(deployment.url.clone())
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .header(REQUEST_ID, call.id.as_str())
            .body(call.asked.body_for(&deployment.upstream_model));
        if call.asked.stream {
            request = request.header(ACCEPT, HeaderValue::from_static("text/event-stream"));
        }
        if let Some(authorization) = &deployment.authorization {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        let mut response = request.send().await.map_err(failure)?;
        let status = response.status();
        if status.is_success() {
            return if call.asked.stream { self.open(response).await } else { self.whole(response).await };
        }
        if status.is_client_error() && !OWN_AFFAIRS.contains(&status) {
            let body = read(&mut response, MAX_REFUSAL_BYTES).await?;
            return Err(Failure::Refusal { status, body });
        }
        Err(Failure::Status(status))
    }

    async fn whole(&self, mut response: Response) -> Result<Reply, Failure> {
        let body = read(&mut response, self.limits.answer_bytes).await?;
        match Answer::read(&body) {
            Some(answer) if !answer.is_error() => Ok(Reply::Whole(body)),
            _ => Err(Failure::Malformed),
        }
    }

    /// Reads a stream up to its first data, so that one which fails before it can still be replaced.
    async fn open(&self, mut response: Response) -> Result<Reply, Failure> {
        let mut events = Events::new(self.limits.answer_bytes);
        loop {
            let chunk = response.chunk().await.map_err(failure)?;
            let ended = chunk.is_none();
            events.push(&chunk.unwrap_or_default());
            while let Some(first) = events.next().map_err(|_| Failure::Malformed)? {
                match sse::data(&first) {
                    None => {}
                    Some(data) if Answer::read(&data).is_some_and(|answer| !answer.is_error()) => {
                        drop(data);
                        return Ok(Reply::Stream(Box::new(Opened { response, events, first })));
                    }
                    Some(_) => return Err(Failure::Malformed),
                }
            }
            if ended {
                return Err(Failure::Malformed);
            }
        }
    }
}

/// A whole body of at most so many bytes.
async fn read(response: &mut Response, most: usize) -> Result<Bytes, Failure> {
    let Some(first) = response.chunk().await.map_err(failure)? else { return Ok(Bytes::new()) };
    let mut whole = first;
    let mut more = BytesMut::new();
    while let Some(chunk) = response.chunk().await.map_err(failure)? {
        if more.is_empty() {
            more.extend_from_slice(&whole);
        }
        more.extend_from_slice(&chunk);
        if more.len() > most {
            return Err(Failure::Malformed);
        }
    }
    if !more.is_empty() {
        whole = more.freeze();
    }
    if whole.len() > most { Err(Failure::Malformed) } else { Ok(whole) }
}

/// The error's text names the upstream's address, so only its kind is kept.
fn failure(error: reqwest::Error) -> Failure {
    tracing::debug!(error = %error.without_url(), "an upstream call failed");
    Failure::Transport
}

fn record(deployment: &Deployment, outcome: &'static str, latency: Duration) {
    let id = deployment.id.to_string();
    metrics::counter!("tallyweir_gateway_upstream_calls_total", "deployment" => id.clone(), "outcome" => outcome)
        .increment(1);
    metrics::histogram!("tallyweir_gateway_upstream_seconds", "deployment" => id).record(latency);
}
