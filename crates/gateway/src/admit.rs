//! Step 5: do the limits allow it? One atomic decision over the key's whole path.

use axum::http::HeaderMap;
use live_redis::Ticket;
use rate_plan::{Decision, Dimension};

use crate::call::Call;
use crate::error::ApiError;
use crate::headers;

/// Counts the request and the most tokens that it can take, or refuses it. The ticket settles or refunds it later.
///
/// Without an answer of Redis the request does not run: an uncounted pass would let every limit be passed.
pub(crate) async fn admit(call: &Call, told: &mut HeaderMap) -> Result<Option<Ticket>, ApiError> {
    let state = &call.state;
    let plan = state.trees.plan(&call.identity).await.map_err(|error| ApiError::plan(&error))?;
    let estimate = i64::try_from(call.asked.estimate()).unwrap_or(i64::MAX);
    let admission = state.redis.admit_rate_plan(&plan, estimate, call.at).await;
    let admission = admission.map_err(|error| {
        count("error", "none");
        ApiError::admission(&error)
    })?;
    match admission.decision() {
        Decision::Rejected(rejection) => {
            count("rejected", dimension(rejection.dimension));
            Err(ApiError::refused(&admission, rejection))
        }
        Decision::Admitted(_) => {
            count("admitted", "none");
            told.extend(headers::valid(admission.response_headers()));
            Ok(admission.into_ticket())
        }
    }
}

fn count(decision: &'static str, dimension: &'static str) {
    metrics::counter!("tallyweir_gateway_admissions_total", "decision" => decision, "dimension" => dimension)
        .increment(1);
}

const fn dimension(dimension: Dimension) -> &'static str {
    match dimension {
        Dimension::Rpm => "rpm",
        Dimension::Tpm => "tpm",
    }
}
