//! Step 2: the body, within its bounds of size and time.

use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_LENGTH, EXPECT};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use tokio::time::timeout;

use crate::config::Limits;
use crate::error::ApiError;

/// So much of a body that is too large is read and thrown away, for so long, so that a client which sends before it listens hears
/// why it is refused; a connection that is closed with bytes unread is reset.
const DRAINED_BYTES: usize = 8 << 20;
const DRAIN_TIME: Duration = Duration::from_secs(2);

/// A whole body. Refused as soon as its length is known to be too large; it is never kept beyond the bound.
pub(crate) async fn body(limits: &Limits, headers: &HeaderMap, body: Body) -> Result<Bytes, ApiError> {
    let announced =
        headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|length| length > limits.body_bytes) {
        // Who asks first sends nothing.
        if !headers.contains_key(EXPECT) {
            drain(body).await;
        }
        return Err(ApiError::too_large(limits.body_bytes));
    }
    let read = read(body, limits.body_bytes, announced.unwrap_or(0));
    timeout(limits.read_timeout(), read).await.unwrap_or_else(|_| Err(ApiError::too_slow()))
}

async fn read(body: Body, most: usize, expected: usize) -> Result<Bytes, ApiError> {
    let mut stream = body.into_data_stream();
    let mut whole = BytesMut::with_capacity(expected);
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|_| ApiError::incomplete())?;
        if whole.len() + chunk.len() > most {
            drain(Body::from_stream(stream)).await;
            return Err(ApiError::too_large(most));
        }
        whole.extend_from_slice(&chunk);
    }
    Ok(whole.freeze())
}

async fn drain(body: Body) {
    let mut stream = body.into_data_stream();
    let thrown_away = async {
        let mut drained = 0;
        while let Some(Ok(chunk)) = stream.next().await {
            drained += chunk.len();
            if drained > DRAINED_BYTES {
                return;
            }
        }
    };
    let _ = timeout(DRAIN_TIME, thrown_away).await;
}
