//! One request on its way through the steps.

use std::sync::Arc;
use std::time::Instant;

use axum::http::HeaderMap;
use axum::response::Response;
use chrono::{DateTime, Utc};
use iam_ledger::Identity;
use spend_queue::{ScopeRef, Usd};
use tokio::sync::oneshot;

use crate::asked::Asked;
use crate::error::ApiError;
use crate::idempotency::RequestId;
use crate::state::State;

/// What is known of a request once it was understood: who asks, for what, and how much it can take. Nothing is counted yet.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) state: Arc<State>,
    pub(crate) id: RequestId,
    pub(crate) identity: Arc<Identity>,
    /// The key as the subject of budgets.
    pub(crate) subject: ScopeRef,
    pub(crate) asked: Asked,
    /// The instant of every decision about it, and the start of its bill.
    pub(crate) at: DateTime<Utc>,
    pub(crate) began: Instant,
}

impl Call {
    /// The most that it can cost, whichever deployment answers; `None` beyond any amount.
    pub(crate) fn ceiling(&self) -> Option<Usd> {
        let Asked { model, prompt_tokens, most_output, .. } = &self.asked;
        let costs = model
            .deployments
            .iter()
            .map(|deployment| deployment.prices.ceiling(*prompt_tokens, *most_output));
        costs.collect::<Option<Vec<_>>>()?.into_iter().max()
    }
}

/// Where the answer goes. The client may be gone at any time; nobody but the relay asks.
#[derive(Debug)]
pub(crate) struct Client {
    answer: oneshot::Sender<Answered>,
}

/// What the client gets, with the headers that every answer to it has.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) result: Result<Response, ApiError>,
    pub(crate) headers: HeaderMap,
}

impl Client {
    /// A client, and where its answer is waited for.
    pub(crate) fn new() -> (Self, oneshot::Receiver<Answered>) {
        let (answer, answered) = oneshot::channel();
        (Self { answer }, answered)
    }

    /// Answers; whether the client is still there is no concern here.
    pub(crate) fn answer(self, result: Result<Response, ApiError>, headers: HeaderMap) {
        let _ = self.answer.send(Answered { result, headers });
    }
}
