//! A small client, and a mock that waits for nothing.

use std::time::Duration;

use axum::http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use mock_upstream::{JournalLine, MockOptions, MockUpstream, Moment};
use serde_json::{Value, json};

type Incoming = axum::body::Body;

/// What came back: the status and all of the body, or the part of it that came before the connection broke.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) text: String,
    pub(crate) broken: bool,
}

pub(crate) fn fast() -> MockOptions {
    MockOptions { latency: Duration::ZERO, token_interval: Duration::ZERO, ..MockOptions::default() }
}

pub(crate) fn chat(words: &str) -> Value {
    json!({ "model": "small", "messages": [{ "role": "user", "content": "Hello" }], "metadata": { "mock": words } })
}

/// Sends a request and returns when its head is there. An error when the connection closed before.
pub(crate) async fn open(
    url: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Result<Response<Incoming>, hyper_util::client::legacy::Error> {
    // Plain GET asks for what has no body.
    let mut request = match body {
        "" => Request::get(format!("{url}{path}")),
        _ => Request::post(format!("{url}{path}")),
    };
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    // A connection of its own, which is closed when the answer is dropped.
    let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build_http();
    let request = request.body(Full::<bytes::Bytes>::from(body.to_owned())).unwrap();
    Ok(client.request(request).await?.map(Incoming::new))
}

pub(crate) async fn ask(url: &str, path: &str, body: &Value) -> Answer {
    read(open(url, path, &[("x-request-id", "r1")], &body.to_string()).await.unwrap()).await
}

pub(crate) async fn read(response: Response<Incoming>) -> Answer {
    let status = response.status();
    let mut body = response.into_body();
    let (mut bytes, mut broken) = (Vec::new(), false);
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => bytes.extend(frame.into_data().unwrap_or_default()),
            Err(_) => {
                broken = true;
                break;
            }
        }
    }
    Answer { status, text: String::from_utf8(bytes).unwrap(), broken }
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The events of a stream that are JSON.
    pub(crate) fn events(&self) -> Vec<Value> {
        let data = self.text.split("\n\n").filter_map(|event| event.strip_prefix("data: "));
        data.filter(|event| *event != "[DONE]").map(|event| serde_json::from_str(event).unwrap()).collect()
    }
}

/// Waits for the end of the first request.
pub(crate) async fn ended(mock: &MockUpstream) -> JournalLine {
    loop {
        if let Some(line) = mock.journal().into_iter().find(|line| line.event == Moment::End) {
            return line;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
