//! The way of a request: the list of its steps, each in a module of its own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{Request, State as Extracted};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use chrono::Utc;
use tracing::Instrument;

use crate::asked::Asked;
use crate::authenticate::authenticate;
use crate::call::{Answered, Call, Client};
use crate::config::Kind;
use crate::dispatch::{NotServed, dispatch};
use crate::error::ApiError;
use crate::headers;
use crate::idempotency::RequestId;
use crate::relay::{json, relay};
use crate::reserve::Reserved;
use crate::state::State;
use crate::tokenizer::SHORT_BYTES;
use crate::{receive, record};

/// How long a finished answer waits for what the key has spent, which was asked for when the upstream was.
const SPEND_PATIENCE: Duration = Duration::from_millis(50);

/// `POST /v1/chat/completions`.
pub(crate) async fn chat(Extracted(state): Extracted<Arc<State>>, request: Request) -> Response {
    serve(state, Kind::Chat, request).await
}

/// `POST /v1/embeddings`.
pub(crate) async fn embeddings(Extracted(state): Extracted<Arc<State>>, request: Request) -> Response {
    serve(state, Kind::Embedding, request).await
}

async fn serve(state: Arc<State>, kind: Kind, request: Request) -> Response {
    let began = Instant::now();
    // Until there is an id for the bill, a refusal has one of its own.
    let mut id = RequestId::fresh();
    let answered = match understand(state, kind, request, began, &mut id).await {
        Ok(call) => run(call).await,
        Err(error) => Answered { result: Err(error), headers: HeaderMap::new() },
    };
    let mut response = answered.result.into_response();
    for (name, value) in &answered.headers {
        response.headers_mut().insert(name, value.clone());
    }
    headers::put(response.headers_mut(), headers::REQUEST_ID, id.as_str());
    record::request(kind.as_str(), &response, began);
    response
}

/// Steps 1 and 2: who asks, and for what. Nothing is counted yet, so a client that leaves here leaves nothing behind.
async fn understand(
    state: Arc<State>,
    kind: Kind,
    request: Request,
    began: Instant,
    id: &mut RequestId,
) -> Result<Call, ApiError> {
    if state.shutdown.is_stopping() {
        return Err(ApiError::shutting_down());
    }
    let at = Utc::now();
    let (parts, body) = request.into_parts();
    let identity = authenticate(&state, &parts.headers, at).await?;
    *id = RequestId::of(&parts.headers, identity.key_id())?;
    let body = receive::body(&state.config.limits, &parts.headers, body).await?;
    let asked = if body.len() <= SHORT_BYTES {
        Asked::read(kind, &body, &state.config)?
    } else {
        let state = Arc::clone(&state);
        let read = tokio::task::spawn_blocking(move || Asked::read(kind, &body, &state.config));
        read.await.map_err(|_| ApiError::internal())??
    };
    let subject = identity.key().map_err(|error| ApiError::authentication(&error))?;
    // The instant of the decisions: a body may have come slowly.
    Ok(Call { state, id: id.clone(), identity, subject, asked, at: Utc::now(), began })
}

/// Steps 3 to 9 in a task of their own: from here on something is counted, held or owed, and a client that leaves must not
/// undo half of it.
async fn run(call: Call) -> Answered {
    let (client, answered) = Client::new();
    let calls = call.state.shutdown.calls.clone();
    let span = tracing::info_span!("call", request_id = call.id.as_str(), key_id = call.identity.key_id());
    calls.spawn(perform(call, client).instrument(span));
    let nothing = |_| Answered { result: Err(ApiError::internal()), headers: HeaderMap::new() };
    answered.await.unwrap_or_else(nothing)
}

async fn perform(call: Call, client: Client) {
    let mut told = HeaderMap::new();
    let (reserved, affinity) =
        tokio::join!(Reserved::take(&call, &mut told), call.state.affinities.of(&call));
    let reserved = match reserved {
        Ok(reserved) => reserved,
        Err(error) => return client.answer(Err(error), told),
    };
    let spend = tokio::spawn({
        let (state, key) = (Arc::clone(&call.state), call.subject.clone());
        async move { state.key_spends.of(&key).await }
    });
    let waited = Instant::now();
    let served = dispatch(&call, affinity.as_deref()).await;
    let upstream = waited.elapsed();
    if let Ok(Ok(Some(spend))) = tokio::time::timeout(SPEND_PATIENCE, spend).await {
        headers::put(&mut told, headers::KEY_SPEND, &spend.to_string());
    }
    let served = match served {
        Ok(served) => served,
        Err(not_served) => {
            // First, so that the client may try again under the same key at once.
            reserved.give_back(&call).await;
            let answer = match not_served {
                NotServed::Failed(error) => Err(error),
                NotServed::Refused { deployment, status, body } => {
                    headers::put(&mut told, headers::DEPLOYMENT, &deployment.id);
                    Ok(json(status, body))
                }
            };
            return client.answer(answer, told);
        }
    };
    let (deployment, latency) = (Arc::clone(&served.deployment), served.latency);
    headers::put(&mut told, headers::DEPLOYMENT, &deployment.id);
    record::overhead(call.began.elapsed().saturating_sub(upstream));
    let usage = relay(&call, client, served, told).await;
    reserved.settle(&call, usage.total()).await;
    call.state.telemetry.answered(&deployment.id, latency, usage.total());
    call.state.affinities.keep(&call, &deployment.id).await;
}
