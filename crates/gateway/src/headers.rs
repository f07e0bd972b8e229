//! Names and values of the gateway's own headers.

use axum::http::HeaderMap;
use axum::http::header::{HeaderName, HeaderValue};

/// The id of the request, which is that of its bill.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Which deployment answered.
pub(crate) const DEPLOYMENT: HeaderName = HeaderName::from_static("x-tallyweir-deployment");
/// What the key has spent so far, in USD.
pub(crate) const KEY_SPEND: HeaderName = HeaderName::from_static("x-litellm-key-spend");
/// Whether OpenAI's clients may repeat the request.
pub(crate) const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");
/// Under which the client makes the request only once.
pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Headers that a library made. Its names are lower-case and its values ASCII, so none is left out.
pub(crate) fn valid(headers: Vec<(&'static str, String)>) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
    headers
        .into_iter()
        .filter_map(|(name, value)| Some((HeaderName::from_static(name), HeaderValue::try_from(value).ok()?)))
}

/// Adds one header, unless a value that an operator chose holds what no header can.
pub(crate) fn put(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}
