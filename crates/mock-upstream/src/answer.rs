//! Bodies: usage, whole answers, broken ones.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use serde::Serialize;

/// What a request is charged for.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Usage {
    pub(crate) prompt_tokens: u64,
    pub(crate) completion_tokens: u64,
    pub(crate) total_tokens: u64,
    pub(crate) prompt_tokens_details: PromptDetails,
}

/// What is known of a prompt's tokens.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct PromptDetails {
    pub(crate) cached_tokens: u64,
}

impl Usage {
    pub(crate) fn new(prompt_tokens: u64, cached_tokens: u64, completion_tokens: u64) -> Self {
        Self {
            prompt_tokens,
            completion_tokens,
            total_tokens: prompt_tokens + completion_tokens,
            prompt_tokens_details: PromptDetails { cached_tokens },
        }
    }
}

/// JSON with status 200.
pub(crate) fn json(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).unwrap_or_default().into()
}

/// A body with status 200 and this media type.
pub(crate) fn ok(media_type: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::OK;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

/// The first half of a body, then the connection breaks.
pub(crate) fn half(body: &Bytes) -> Response {
    let first = stream::once(std::future::ready(Ok(body.slice(..body.len() / 2))));
    let breaking = stream::once(async {
        // What was sent so far has to leave first.
        tokio::time::sleep(Duration::from_millis(2)).await;
        Err(broken())
    });
    let mut response = ok("application/json", Body::from_stream(first.chain(breaking)));
    response.headers_mut().insert(CONTENT_LENGTH, body.len().into());
    response
}

/// The connection closes, and not even a status is sent: a body that fails at once takes the head with it.
pub(crate) fn nothing() -> Response {
    Response::new(Body::from_stream(stream::once(std::future::ready(Err::<Bytes, _>(broken())))))
}

/// Never an answer. The request's client ends it.
pub(crate) async fn hang() -> Infallible {
    std::future::pending().await
}

/// What makes the server close a connection.
pub(crate) fn broken() -> io::Error {
    io::Error::other("broken on demand")
}
