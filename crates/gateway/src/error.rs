//! What clients are told when they get no answer: OpenAI's error object. Every error of a library is mapped to the contract
//! here and nowhere else.
//!
//! | status | `type` | `code` | when |
//! |---|---|---|---|
//! | 400 | `invalid_request_error` | `invalid_json`, `invalid_value`, `context_length_exceeded`, `request_exceeds_limit` | the request can never be served |
//! | 401 | `invalid_request_error` | `invalid_api_key` | no secret, or none that is known |
//! | 403 | `invalid_request_error` | `blocked` | the key or a scope above it is blocked |
//! | 404 | `invalid_request_error` | `model_not_found`, `not_found` | no such model or path |
//! | 405 | `invalid_request_error` | `method_not_allowed` | another method |
//! | 408 | `invalid_request_error` | `request_timeout` | the body came too slowly |
//! | 409 | `invalid_request_error` | `idempotency_key_reused` | the key was used before |
//! | 413 | `invalid_request_error` | `request_too_large` | the body is too long |
//! | 429 | `rate_limit` | `rate_limit_exceeded` | a limit per minute is reached |
//! | 429 | `insufficient_quota` | `budget_exceeded` | a budget is used up |
//! | 500 | `server_error` | `internal_error` | a fault of the gateway |
//! | 502 | `server_error` | `upstream_error` | no deployment answered properly |
//! | 503 | `server_error` | `rate_limit_unavailable`, `budget_unavailable`, `identity_unavailable`, `billing_unavailable`, `shutting_down` | a decision or a bill cannot be made |
//! | 504 | `server_error` | `upstream_timeout` | no deployment answered in time |
//!
//! Texts never hold a secret, a prompt, an address or a cause: those are for the log.

use axum::Json;
use axum::http::StatusCode;
use axum::http::header::{HeaderName, HeaderValue, WWW_AUTHENTICATE};
use axum::response::{IntoResponse, Response};
use iam_ledger::{HoldError, LedgerError, QuotaLevel, ScopeKind};
use live_redis::{Admission, LiveRedisError};
use rate_plan::{Rejection, UsageError};
use serde::Serialize;
use spend_queue::{ScopeRef, Usd};

use crate::headers;

/// The type of errors that the client caused.
const INVALID: &str = "invalid_request_error";
/// The type of errors that it did not cause.
const SERVER: &str = "server_error";

/// A refusal or failure, as a client sees it.
#[derive(Debug, Clone)]
pub(crate) struct ApiError {
    status: StatusCode,
    kind: &'static str,
    code: &'static str,
    message: String,
    param: Option<&'static str>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

#[derive(Serialize)]
struct Body<'a> {
    error: Object<'a>,
}

#[derive(Serialize)]
struct Object<'a> {
    message: &'a str,
    r#type: &'static str,
    param: Option<&'static str>,
    code: &'static str,
}

impl ApiError {
    fn new(status: StatusCode, kind: &'static str, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, kind, code, message: message.into(), param: None, headers: Vec::new() }
    }

    fn about(mut self, param: &'static str) -> Self {
        self.param = Some(param);
        self
    }

    /// Keeps OpenAI's clients from repeating what waiting cannot help.
    fn final_answer(mut self) -> Self {
        self.headers.push((headers::SHOULD_RETRY, HeaderValue::from_static("false")));
        self
    }

    /// The error object as an event of a stream that has begun.
    pub(crate) fn event(&self) -> String {
        // Texts and nulls always serialize.
        format!("data: {}\n\n", serde_json::to_string(&self.body()).unwrap_or_default())
    }

    fn body(&self) -> Body<'_> {
        let Self { kind, code, message, param, .. } = self;
        Body { error: Object { message, r#type: kind, param: *param, code } }
    }

    // What the client did.

    pub(crate) fn invalid_json(line: usize, column: usize) -> Self {
        let message = format!("The body is not a JSON object (line {line}, column {column}).");
        Self::new(StatusCode::BAD_REQUEST, INVALID, "invalid_json", message)
    }

    pub(crate) fn invalid(param: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, INVALID, "invalid_value", message).about(param)
    }

    pub(crate) fn invalid_header(name: &'static str, message: &'static str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, INVALID, "invalid_value", message).about(name)
    }

    pub(crate) fn too_long_for_the_model(param: &'static str, tokens: u64, context: u64) -> Self {
        let message =
            format!("The prompt has {tokens} tokens; the model has room for {context}, its answer included.");
        Self::new(StatusCode::BAD_REQUEST, INVALID, "context_length_exceeded", message).about(param)
    }

    pub(crate) fn invalid_api_key() -> Self {
        let message = "No valid API key: send one as `authorization: Bearer KEY`.";
        let mut error = Self::new(StatusCode::UNAUTHORIZED, INVALID, "invalid_api_key", message);
        error.headers.push((WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")));
        error
    }

    pub(crate) fn blocked(kind: &str, id: &str) -> Self {
        Self::new(StatusCode::FORBIDDEN, INVALID, "blocked", format!("{kind}/{id} is blocked."))
            .final_answer()
    }

    pub(crate) fn model_not_found(model: &str) -> Self {
        let message = format!("The model {model:?} does not exist here.");
        Self::new(StatusCode::NOT_FOUND, INVALID, "model_not_found", message).about("model")
    }

    pub(crate) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, INVALID, "not_found", "There is nothing at this path.")
    }

    pub(crate) fn method_not_allowed() -> Self {
        let message = "This path is not for this method.";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, INVALID, "method_not_allowed", message)
    }

    pub(crate) fn too_large(bound: usize) -> Self {
        let message = format!("The body is larger than {bound} bytes.");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, INVALID, "request_too_large", message)
    }

    pub(crate) fn too_slow() -> Self {
        let message = "The body did not come in time.";
        Self::new(StatusCode::REQUEST_TIMEOUT, INVALID, "request_timeout", message)
    }

    pub(crate) fn incomplete() -> Self {
        Self::new(StatusCode::BAD_REQUEST, INVALID, "invalid_json", "The body ended before it was whole.")
    }

    pub(crate) fn idempotency_key_reused() -> Self {
        let message = "A request with this idempotency-key was made before, and it is not made again.";
        Self::new(StatusCode::CONFLICT, INVALID, "idempotency_key_reused", message)
            .about("idempotency-key")
            .final_answer()
    }

    // What limits and budgets say.

    /// A refused admission: 403 for what is blocked, 400 for what can never fit, else 429.
    pub(crate) fn refused(admission: &Admission, rejection: &Rejection) -> Self {
        let Rejection { scope, limit, used, demand, .. } = rejection;
        let mut error = if *limit == 0 {
            Self::blocked(scope.kind(), scope.id())
        } else if rejection.can_never_fit() {
            let message = format!(
                "{rejection}: the request needs {demand}, and {scope} has {limit} a minute. No wait can help."
            );
            Self::new(StatusCode::BAD_REQUEST, INVALID, "request_exceeds_limit", message).final_answer()
        } else {
            let message = format!(
                "{rejection}: {scope} has {limit} a minute, used {used}, and {demand} more are needed."
            );
            let error =
                Self::new(StatusCode::TOO_MANY_REQUESTS, "rate_limit", "rate_limit_exceeded", message);
            // What is held for siblings is held in every minute.
            if admission.retry_after().is_some() { error } else { error.final_answer() }
        };
        error.headers.extend(headers::valid(admission.response_headers()));
        error
    }

    pub(crate) fn budget_exceeded(level: &QuotaLevel, demand: Usd) -> Self {
        if level.blocked {
            return Self::blocked(level.scope.kind(), level.scope.id());
        }
        let (budget, remaining) = (level.budget.unwrap_or_default(), level.remaining.unwrap_or_default());
        let message = format!(
            "The budget of {} does not allow this: {remaining} of {budget} USD remain, and up to {demand} are needed.",
            level.scope
        );
        Self::new(StatusCode::TOO_MANY_REQUESTS, "insufficient_quota", "budget_exceeded", message)
            .final_answer()
    }

    // What cannot be decided. Each of these may be tried again.

    pub(crate) fn rate_limit_unavailable() -> Self {
        let message = "The limits cannot be checked now.";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, SERVER, "rate_limit_unavailable", message)
    }

    pub(crate) fn budget_unavailable() -> Self {
        let message = "What is left of the budget cannot be told now.";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, SERVER, "budget_unavailable", message)
    }

    pub(crate) fn identity_unavailable() -> Self {
        let message = "Whose key this is cannot be told now.";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, SERVER, "identity_unavailable", message)
    }

    pub(crate) fn billing_unavailable() -> Self {
        let message = "The bill of this request could not be kept, so its answer is not given.";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, SERVER, "billing_unavailable", message).final_answer()
    }

    pub(crate) fn shutting_down() -> Self {
        let message = "This gateway is stopping.";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, SERVER, "shutting_down", message)
    }

    // What upstreams did.

    pub(crate) fn upstream() -> Self {
        let message = "The model's upstream failed.";
        Self::new(StatusCode::BAD_GATEWAY, SERVER, "upstream_error", message)
    }

    pub(crate) fn upstream_timeout() -> Self {
        let message = "The model's upstream did not answer in time.";
        Self::new(StatusCode::GATEWAY_TIMEOUT, SERVER, "upstream_timeout", message)
    }

    pub(crate) fn internal() -> Self {
        let message = "The gateway failed.";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, SERVER, "internal_error", message)
    }

    // What libraries say.

    pub(crate) fn authentication(error: &LedgerError) -> Self {
        match error {
            LedgerError::NotAuthenticated => Self::invalid_api_key(),
            LedgerError::Blocked { kind, id } => Self::blocked(kind.as_str(), id),
            error => {
                tracing::warn!(%error, "a key could not be looked up");
                Self::identity_unavailable()
            }
        }
    }

    /// The rate tree of a key could not be had.
    pub(crate) fn plan(error: &LedgerError) -> Self {
        tracing::warn!(%error, "a rate plan could not be made");
        match error {
            // Deleted or moved since it was authenticated: it is asked for again soon.
            LedgerError::NotFound { kind: ScopeKind::Key, .. } => Self::identity_unavailable(),
            _ => Self::rate_limit_unavailable(),
        }
    }

    pub(crate) fn admission(error: &LiveRedisError) -> Self {
        match error {
            LiveRedisError::Usage(UsageError::EstimateTooLarge { .. }) => {
                let message = "The request may take more tokens than any limit counts.";
                Self::new(StatusCode::BAD_REQUEST, INVALID, "request_exceeds_limit", message).final_answer()
            }
            error => {
                tracing::warn!(%error, "an admission could not be decided");
                Self::rate_limit_unavailable()
            }
        }
    }

    pub(crate) fn hold(error: &HoldError) -> Self {
        match error {
            HoldError::Blocked { blocked, .. } => Self::blocked(blocked.kind(), blocked.id()),
            HoldError::Settled(_) | HoldError::Conflict { .. } => Self::idempotency_key_reused(),
            error => {
                tracing::warn!(%error, "money could not be held");
                Self::budget_unavailable()
            }
        }
    }

    pub(crate) fn quota(subject: &ScopeRef, error: &impl std::fmt::Display) -> Self {
        tracing::warn!(%subject, %error, "a budget could not be read");
        Self::budget_unavailable()
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        metrics::counter!("tallyweir_gateway_refusals_total", "code" => self.code).increment(1);
        let mut response = (self.status, Json(self.body())).into_response();
        response.headers_mut().extend(self.headers);
        response
    }
}
