//! Errors in OpenAI's form.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// An answer that is an error.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: StatusCode,
    code: &'static str,
    message: String,
}

impl Refusal {
    /// The request is wrong.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, code: "bad_request", message: message.into() }
    }

    /// The API key is missing or wrong.
    pub(crate) fn unauthorized() -> Self {
        let message = "mock: not the API key that this upstream wants".to_owned();
        Self { status: StatusCode::UNAUTHORIZED, code: "invalid_api_key", message }
    }

    /// The status that was asked for.
    pub(crate) fn on_demand(status: u16) -> Self {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self { status, code: "mock_failure", message: format!("mock: {} on demand", status.as_u16()) }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let kind = if self.status.is_server_error() { "server_error" } else { "invalid_request_error" };
        let error = json!({ "message": self.message, "type": kind, "param": null, "code": self.code });
        (self.status, Json(json!({ "error": error }))).into_response()
    }
}
