//! Step 3: the id of the request, and the promise to make it only once.
//!
//! Without `idempotency-key` an id is new (UUIDv7). With one it is `<key id>/<SHA-256 of the header>`, which must be claimed
//! in Redis before anything else is done. Of several requests that claim it one wins; the others are answered 409 and never
//! dispatched, since the queue would take their bills for repetitions of the first.

use std::time::Duration;

use axum::http::HeaderMap;
use live_redis::{CallError, LiveRedisError};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::call::Call;
use crate::error::ApiError;
use crate::headers::IDEMPOTENCY_KEY;

/// For how long a key is remembered.
const REMEMBERED: Duration = Duration::from_secs(24 * 60 * 60);
/// The longest header that is accepted, in bytes.
const MAX_HEADER_BYTES: usize = 1_024;

/// The id of a request and of its bill.
#[derive(Debug, Clone)]
pub(crate) struct RequestId {
    id: String,
    /// Set for a request whose id is its client's: what tells this claim from every other.
    claim: Option<String>,
}

impl RequestId {
    /// A new id.
    pub(crate) fn fresh() -> Self {
        Self { id: new_id(), claim: None }
    }

    /// The id that the headers of a key's request ask for.
    pub(crate) fn of(headers: &HeaderMap, key_id: &str) -> Result<Self, ApiError> {
        let Some(given) = headers.get(IDEMPOTENCY_KEY) else { return Ok(Self::fresh()) };
        if given.is_empty() || given.len() > MAX_HEADER_BYTES {
            return Err(ApiError::invalid_header(
                "idempotency-key",
                "idempotency-key must have 1 to 1024 bytes.",
            ));
        }
        let digest = hex::encode(Sha256::digest(given.as_bytes()));
        let id = format!("{key_id}/{digest}");
        // The ids of bills have a bound, and those of keys may be as long.
        let id = if id.len() > spend_queue::MAX_ID_BYTES { hex::encode(Sha256::digest(id)) } else { id };
        Ok(Self { id, claim: Some(new_id()) })
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.id
    }

    fn key(&self) -> String {
        format!("idempotency:{}", self.id)
    }
}

/// A new id, in the order of time.
pub(crate) fn new_id() -> String {
    Uuid::now_v7().to_string()
}

/// Claims the id, if it is the client's. `true`: it is claimed, to be given up if the request is not made.
pub(crate) async fn claim(call: &Call) -> Result<bool, ApiError> {
    let Some(claim) = &call.id.claim else { return Ok(false) };
    let key = call.id.key();
    let swap = || call.state.redis.swap_affinity(&key, None, claim, REMEMBERED);
    let claimed = match swap().await {
        // The connection broke, and it may have been claimed: nobody else stores this claim, so repeating tells.
        Err(LiveRedisError::Call(CallError::Connection(_))) => swap().await,
        claimed => claimed,
    };
    match claimed {
        Ok(true) => Ok(true),
        Ok(false) => Err(ApiError::idempotency_key_reused()),
        Err(error) => {
            // It may have been claimed although no answer came.
            give_up(call).await;
            Err(ApiError::admission(&error))
        }
    }
}

/// Lets the client try again under the same key.
pub(crate) async fn give_up(call: &Call) {
    let Some(claim) = &call.id.claim else { return };
    if let Err(error) = call.state.redis.drop_affinity(&call.id.key(), claim).await {
        tracing::warn!(request_id = call.id.as_str(), %error, "an idempotency key stays claimed until it expires");
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn of(header: &'static str, key: &str) -> Result<RequestId, ApiError> {
        let mut headers = HeaderMap::new();
        headers.insert(IDEMPOTENCY_KEY, HeaderValue::from_static(header));
        RequestId::of(&headers, key)
    }

    #[test]
    fn the_same_header_of_the_same_key_is_the_same_request() {
        let id = |header, key: &str| of(header, key).unwrap().as_str().to_owned();
        assert_eq!(id("a", "k"), id("a", "k"));
        assert!(id("a", "k").starts_with("k/"));
        assert_ne!(id("a", "k"), id("b", "k"));
        assert_ne!(id("a", "k"), id("a", "l"));
        let long = "k".repeat(128);
        assert!(id("a", &long).len() <= spend_queue::MAX_ID_BYTES);
        assert_ne!(id("a", &long), id("b", &long));
        assert!(of("", "k").is_err());
    }

    #[test]
    fn ids_without_a_header_are_new() {
        let headers = HeaderMap::new();
        let ids = [0, 1].map(|_| RequestId::of(&headers, "k").unwrap());
        assert_ne!(ids[0].as_str(), ids[1].as_str());
    }
}
