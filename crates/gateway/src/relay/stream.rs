//! An answer in parts.

use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::answer::{Answer, Produced};
use crate::bill::{self, Ended, Used};
use crate::call::{Call, Client};
use crate::config::Deployment;
use crate::dispatch::Opened;
use crate::error::ApiError;
use crate::sse::{self, Events};
use crate::usage::Usage;

/// How many parts may wait for a client; then the upstream waits too.
const WAITING_PARTS: usize = 32;
/// How long an upstream may take to end a stream after its last event.
const REST_PATIENCE: Duration = Duration::from_millis(200);
/// The end of every stream.
const DONE: &[u8] = b"[DONE]";

/// Why no more is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// `[DONE]`.
    Whole,
    /// The client left, or took nothing for too long.
    ClientGone,
    /// The upstream broke off, or sent what is no answer.
    Broken,
    /// The upstream was silent for too long.
    Silent,
    /// The gateway was told to end.
    Cut,
}

/// Passes the events on as they come, then bills, then sends the end.
pub(super) async fn relay(
    call: &Call,
    client: Client,
    deployment: &Deployment,
    opened: Opened,
    latency: Duration,
    told: HeaderMap,
) -> Usage {
    let (sender, mut parts) = mpsc::channel::<Bytes>(WAITING_PARTS);
    let body = stream::poll_fn(move |context| {
        parts.poll_recv(context).map(|part| part.map(Ok::<_, std::convert::Infallible>))
    });
    let mut response = Response::new(Body::from_stream(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    client.answer(Ok(response), told);

    let open = metrics::gauge!("tallyweir_gateway_streams_open");
    open.increment(1);
    let mut relay = Relay { call, sender, produced: Produced::default(), done: Bytes::new() };
    let Opened { mut response, events, first } = opened;
    let end = relay.run(&mut response, events, first).await;
    if end != End::Whole {
        // Nothing else tells the upstream to stop.
        drop(response);
        open.decrement(1);
        return finish(call, deployment, relay, end, latency).await;
    }
    open.decrement(1);
    let usage = finish(call, deployment, relay, end, latency).await;
    // A connection whose answer was read to its end can serve again.
    let rest = async { while let Ok(Some(_)) = response.chunk().await {} };
    let _ = timeout(REST_PATIENCE, rest).await;
    usage
}

/// Bills, then tells the client how it ended.
async fn finish(
    call: &Call,
    deployment: &Deployment,
    relay: Relay<'_>,
    end: End,
    latency: Duration,
) -> Usage {
    let Relay { sender, produced, done, .. } = relay;
    let usage = produced.usage(call.asked.prompt_tokens, call.asked.model.tokenizer).await;
    let used = Used {
        usage,
        ended: if end == End::Whole { Ended::Whole } else { Ended::Partial },
        first_token_ms: u64::try_from(latency.as_millis()).ok(),
    };
    let billed = bill::bill(call, deployment, used).await;
    let last = match (end, billed) {
        (End::Whole, Ok(())) => done,
        (End::Whole, Err(_)) => ApiError::billing_unavailable().event().into(),
        (End::ClientGone, _) => {
            metrics::counter!("tallyweir_gateway_client_departures_total").increment(1);
            return usage;
        }
        (End::Broken, _) => ApiError::upstream().event().into(),
        (End::Silent, _) => ApiError::upstream_timeout().event().into(),
        (End::Cut, _) => ApiError::shutting_down().event().into(),
    };
    if matches!(end, End::Broken | End::Silent) {
        tracing::warn!(
            request_id = call.id.as_str(),
            deployment = &*deployment.id,
            ?end,
            "a stream broke off"
        );
        call.state.telemetry.failed(&deployment.id, &call.state.config.routing).await;
    }
    // If it is gone by now, it has paid for what it saw.
    let _ = timeout(call.state.config.limits.read_timeout(), sender.send(last)).await;
    usage
}

struct Relay<'a> {
    call: &'a Call,
    sender: mpsc::Sender<Bytes>,
    produced: Produced,
    /// The event `[DONE]`, held back until the bill is safe.
    done: Bytes,
}

impl Relay<'_> {
    async fn run(&mut self, response: &mut reqwest::Response, mut events: Events, first: Bytes) -> End {
        if let Some(end) = self.pass(first).await {
            return end;
        }
        let idle = self.call.state.config.limits.upstream_idle_timeout();
        loop {
            if let Some(end) = self.pass_all(&mut events).await {
                return end;
            }
            let chunk = tokio::select! {
                biased;
                () = self.call.state.shutdown.cut() => return End::Cut,
                () = self.sender.closed() => return End::ClientGone,
                chunk = timeout(idle, response.chunk()) => chunk,
            };
            match chunk {
                Err(_) => return End::Silent,
                Ok(Ok(Some(chunk))) => events.push(&chunk),
                Ok(Ok(None)) => {
                    // Without [DONE] nobody knows whether it is whole.
                    let last = events.last();
                    return match last {
                        Some(last) => self.pass(last).await.unwrap_or(End::Broken),
                        None => End::Broken,
                    };
                }
                Ok(Err(error)) => {
                    tracing::debug!(error = %error.without_url(), "an upstream's stream failed");
                    return End::Broken;
                }
            }
        }
    }

    async fn pass_all(&mut self, events: &mut Events) -> Option<End> {
        loop {
            match events.next() {
                Ok(Some(event)) => {
                    if let Some(end) = self.pass(event).await {
                        return Some(end);
                    }
                }
                Ok(None) => return None,
                Err(_) => return Some(End::Broken),
            }
        }
    }

    /// Passes one event on, unless it ends the stream or is not for this client.
    async fn pass(&mut self, event: Bytes) -> Option<End> {
        if let Some(data) = sse::data(&event) {
            if *data == *DONE {
                drop(data);
                self.done = event;
                return Some(End::Whole);
            }
            let Some(answer) = Answer::read(&data).filter(|answer| !answer.is_error()) else {
                return Some(End::Broken);
            };
            self.produced.add(&answer);
            if answer.is_usage_alone() && !self.call.asked.include_usage {
                return None;
            }
        }
        let patience = self.call.state.config.limits.read_timeout();
        tokio::select! {
            biased;
            sent = timeout(patience, self.sender.send(event)) => match sent {
                Ok(Ok(())) => None,
                _ => Some(End::ClientGone),
            },
            () = self.call.state.shutdown.cut() => Some(End::Cut),
        }
    }
}
