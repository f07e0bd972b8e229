//! Step 8: the answer to the client, while it comes.
//!
//! This runs in a task of its own, which owns the upstream's stream. A client that leaves is noticed by its channel; the upstream is
//! then let go, and what was produced until then is billed. Nobody cancels the task.

mod stream;

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use bytes::Bytes;

use crate::answer::{Answer, Produced};
use crate::bill::{self, Ended, Unbilled, Used};
use crate::call::{Call, Client};
use crate::config::Deployment;
use crate::dispatch::{Reply, Served};
use crate::error::ApiError;
use crate::usage::Usage;

/// Gives the answer, billed before its end. Returns what was used.
pub(crate) async fn relay(call: &Call, client: Client, served: Served, told: HeaderMap) -> Usage {
    let Served { deployment, reply, latency } = served;
    match reply {
        Reply::Whole(body) => whole(call, client, &deployment, body, told).await,
        Reply::Stream(opened) => stream::relay(call, client, &deployment, *opened, latency, told).await,
    }
}

async fn whole(call: &Call, client: Client, deployment: &Deployment, body: Bytes, told: HeaderMap) -> Usage {
    let mut produced = Produced::default();
    // `dispatch` has read it before.
    if let Some(answer) = Answer::read(&body) {
        produced.add(&answer);
    }
    let usage = produced.usage(call.asked.prompt_tokens, call.asked.model.tokenizer).await;
    let billed =
        bill::bill(call, deployment, Used { usage, ended: Ended::Whole, first_token_ms: None }).await;
    let answer = match billed {
        Ok(()) => Ok(json(StatusCode::OK, body)),
        Err(Unbilled) => Err(ApiError::billing_unavailable()),
    };
    client.answer(answer, told);
    usage
}

/// An upstream's JSON, as it came.
pub(crate) fn json(status: StatusCode, body: Bytes) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
