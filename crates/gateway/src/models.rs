//! `GET /v1/models`: what clients may name.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::extract::State as Extracted;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use chrono::Utc;
use serde::Serialize;

use crate::authenticate::authenticate;
use crate::headers;
use crate::idempotency::new_id;
use crate::record;
use crate::state::State;

#[derive(Serialize)]
struct List<'a> {
    object: &'static str,
    data: Vec<Entry<'a>>,
}

#[derive(Serialize)]
struct Entry<'a> {
    id: &'a str,
    object: &'static str,
    created: i64,
    owned_by: &'static str,
}

/// Lists the models for a key.
pub(crate) async fn models(Extracted(state): Extracted<Arc<State>>, given: HeaderMap) -> Response {
    let began = Instant::now();
    let mut response = match authenticate(&state, &given, Utc::now()).await {
        Err(error) => error.into_response(),
        Ok(_) => {
            let names = state.config.models.iter().map(|model| &*model.name);
            let entry = |id| Entry { id, object: "model", created: 0, owned_by: "tallyweir" };
            Json(List { object: "list", data: names.map(entry).collect() }).into_response()
        }
    };
    headers::put(response.headers_mut(), headers::REQUEST_ID, &new_id());
    record::request("models", &response, began);
    response
}
