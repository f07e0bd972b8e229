//! Chat completions.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use bytes::Bytes;
use serde::Serialize;

use crate::answer::{self, Usage};
use crate::behaviour::Failure;
use crate::journal::{Kind, Record};
use crate::message::ChatRequest;
use crate::refusal::Refusal;
use crate::server::{App, Asked};
use crate::stream::{Frame, Streamed};
use crate::tokens::words;

#[derive(Serialize)]
struct Completion<'a> {
    id: &'a str,
    object: &'static str,
    created: i64,
    model: &'a str,
    choices: Vec<Choice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Usage>,
}

#[derive(Serialize)]
struct Choice {
    index: u32,
    message: Answer,
    logprobs: Option<()>,
    finish_reason: &'static str,
}

#[derive(Serialize)]
struct Answer {
    role: &'static str,
    content: &'static str,
    refusal: Option<()>,
}

/// Everything that an answer depends on.
struct Plan {
    id: String,
    created: i64,
    model: String,
    choices: u32,
    tokens: u32,
    finish_reason: &'static str,
    usage: Usage,
}

pub(crate) async fn completions(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Refusal> {
    app.authorize(&headers)?;
    let request = ChatRequest::read(&body)?;
    let behaviour = request.behaviour()?.or(app.usual());
    let prompt = request.prompt_tokens();
    let cached = behaviour.cached.unwrap_or(0).min(prompt);
    let asked = Asked { model: &request.model, kind: Kind::Chat, stream: request.stream, prompt, cached };
    let record = app.begin(&headers, asked);

    let (tokens, cut) = request.answer_tokens(behaviour.tokens);
    let choices = request.choices();
    let plan = Plan {
        id: format!("chatcmpl-{}", app.next_id()),
        created: chrono::Utc::now().timestamp(),
        model: request.model.clone().into_owned(),
        choices,
        tokens,
        finish_reason: if cut { "length" } else { "stop" },
        usage: Usage::new(prompt, cached, u64::from(choices) * u64::from(tokens)),
    };
    let (stream, includes_usage) = (request.stream, request.includes_usage() && !behaviour.no_usage);
    drop(request);

    app.wait(behaviour.latency).await;
    if stream {
        let frame = Frame::new(&plan.id, plan.created, &plan.model, includes_usage);
        let streamed = Streamed {
            record,
            frame,
            choices,
            tokens,
            finish_reason: plan.finish_reason,
            usage: includes_usage.then_some(plan.usage),
            interval: behaviour.interval.unwrap_or(app.token_interval()),
            due: None,
            half: behaviour.failure == Some(Failure::Half),
        };
        return respond_stream(streamed, behaviour.failure).await;
    }
    respond(record, &plan, behaviour.no_usage, behaviour.failure).await
}

async fn respond(
    mut record: Record,
    plan: &Plan,
    no_usage: bool,
    failure: Option<Failure>,
) -> Result<Response, Refusal> {
    if let Some(failed) = fail(&mut record, failure, "application/json").await {
        return failed;
    }
    let body = answer::json(&Completion {
        id: &plan.id,
        object: "chat.completion",
        created: plan.created,
        model: &plan.model,
        choices: (0..plan.choices).map(|index| choice(index, plan)).collect(),
        usage: (!no_usage).then_some(plan.usage),
    });
    if failure == Some(Failure::Half) {
        record.failed("half");
        return Ok(answer::half(&body));
    }
    record.sent(plan.usage.completion_tokens);
    record.complete();
    Ok(answer::ok("application/json", body.into()))
}

fn choice(index: u32, plan: &Plan) -> Choice {
    let message = Answer { role: "assistant", content: words(plan.tokens), refusal: None };
    Choice { index, message, logprobs: None, finish_reason: plan.finish_reason }
}

async fn respond_stream(mut streamed: Streamed, failure: Option<Failure>) -> Result<Response, Refusal> {
    match fail(&mut streamed.record, failure, "text/event-stream").await {
        Some(failed) => failed,
        None => Ok(answer::ok("text/event-stream", Body::from_stream(streamed.into_stream()))),
    }
}

/// The answer that a failure makes, unless it comes in the middle.
pub(crate) async fn fail(
    record: &mut Record,
    failure: Option<Failure>,
    media_type: &'static str,
) -> Option<Result<Response, Refusal>> {
    match failure? {
        Failure::Half => None,
        Failure::Status(status) => {
            record.failed(&status.to_string());
            Some(Err(Refusal::on_demand(status)))
        }
        Failure::Garbage => {
            record.failed("garbage");
            Some(Ok(answer::ok(media_type, Body::from("data: <html>no JSON: {\"\n\n"))))
        }
        Failure::Nothing => {
            record.failed("nothing");
            Some(Ok(answer::nothing()))
        }
        Failure::Hang => match answer::hang().await {},
    }
}
