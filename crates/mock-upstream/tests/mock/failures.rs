//! What goes wrong on demand, and how the journal tells it.

use http_body_util::BodyExt;
use mock_upstream::MockUpstream;
use serde_json::json;

use crate::client::{ask, chat, ended, fast, open};

const CHAT: &str = "/v1/chat/completions";

#[tokio::test]
async fn a_status_on_demand_is_an_openai_error() {
    let mock = MockUpstream::start(fast()).unwrap();
    for (status, kind) in [(503, "server_error"), (429, "invalid_request_error")] {
        let answer = ask(&mock.url(), CHAT, &chat(&format!("status={status}"))).await;
        assert_eq!(answer.status.as_u16(), status);
        assert_eq!(answer.json()["error"]["type"], kind);
    }
    assert_eq!(ended(&mock).await.outcome.as_deref(), Some("error:503"));
}

#[tokio::test]
async fn control_holds_until_it_is_taken_back_and_a_request_goes_before_it() {
    let mock = MockUpstream::start(fast()).unwrap();
    let url = mock.url();
    assert_eq!(ask(&url, "/control", &json!({ "mock": "status=500" })).await.status.as_u16(), 204);
    assert_eq!(ask(&url, CHAT, &chat("")).await.status.as_u16(), 500);
    assert_eq!(ask(&url, CHAT, &chat("status=404")).await.status.as_u16(), 404);
    assert_eq!(ask(&url, "/control", &json!({})).await.status.as_u16(), 204);
    assert!(ask(&url, CHAT, &chat("")).await.status.is_success());
    for wrong in [json!({ "mock": "explode" }), json!({ "mok": "hang" })] {
        assert_eq!(ask(&url, "/control", &wrong).await.status.as_u16(), 400, "{wrong}");
    }
}

#[tokio::test]
async fn garbage_is_no_json_and_comes_with_status_200() {
    for stream in [false, true] {
        let mock = MockUpstream::start(fast()).unwrap();
        let mut request = chat("garbage");
        request["stream"] = stream.into();
        let answer = ask(&mock.url(), CHAT, &request).await;
        assert!(answer.status.is_success() && !answer.broken);
        assert!(serde_json::from_str::<serde_json::Value>(&answer.text).is_err());
        assert_eq!(ended(&mock).await.outcome.as_deref(), Some("error:garbage"));
    }
}

#[tokio::test]
async fn half_breaks_the_connection_in_the_middle() {
    for (stream, sent) in [(false, 0), (true, 5)] {
        let mock = MockUpstream::start(fast()).unwrap();
        let mut request = chat("half,tokens=10,interval_ms=1");
        request["stream"] = stream.into();
        let answer = ask(&mock.url(), CHAT, &request).await;
        assert!(answer.status.is_success() && answer.broken && !answer.text.is_empty(), "{answer:?}");
        if stream {
            let parts =
                answer.events().into_iter().map(|event| event["choices"][0]["delta"]["content"].clone());
            assert_eq!(parts.filter(|part| part.as_str().is_some_and(|part| !part.is_empty())).count(), 5);
        }
        let end = ended(&mock).await;
        assert_eq!((end.completion_tokens, end.outcome.as_deref()), (sent, Some("error:half")));
    }
}

#[tokio::test]
async fn nothing_closes_the_connection_before_a_status() {
    for stream in [false, true] {
        let mock = MockUpstream::start(fast()).unwrap();
        let mut request = chat("nothing");
        request["stream"] = stream.into();
        assert!(open(&mock.url(), CHAT, &[], &request.to_string()).await.is_err());
        assert_eq!(ended(&mock).await.outcome.as_deref(), Some("error:nothing"));
    }
}

#[tokio::test]
async fn a_client_that_leaves_is_noticed_with_what_it_was_sent() {
    let mock = MockUpstream::start(fast()).unwrap();
    let mut request = chat("tokens=1000,interval_ms=5");
    request["stream"] = true.into();
    let mut response = open(&mock.url(), CHAT, &[], &request.to_string()).await.unwrap();
    for _ in 0..3 {
        response.body_mut().frame().await.unwrap().unwrap();
    }
    drop(response);
    let end = ended(&mock).await;
    assert_eq!(end.outcome.as_deref(), Some("client_gone"));
    assert!((2..100).contains(&end.completion_tokens), "{end:?}");
}

#[tokio::test]
async fn hang_answers_nothing_until_its_client_leaves() {
    let mock = MockUpstream::start(fast()).unwrap();
    let request = chat("hang").to_string();
    let url = mock.url();
    let asking = tokio::spawn(async move { open(&url, CHAT, &[], &request).await.map(drop) });
    while mock.journal().is_empty() {
        tokio::task::yield_now().await;
    }
    asking.abort();
    assert!(asking.await.unwrap_err().is_cancelled());
    assert_eq!(ended(&mock).await.outcome.as_deref(), Some("client_gone"));
}

#[tokio::test]
async fn a_request_that_is_none_is_refused_and_not_journaled() {
    let mock = MockUpstream::start(fast()).unwrap();
    for request in [json!({}), json!({ "model": "m", "messages": [] }), chat("status=999")] {
        let answer = ask(&mock.url(), CHAT, &request).await;
        assert_eq!(answer.status.as_u16(), 400, "{request}");
        assert_eq!(answer.json()["error"]["type"], "invalid_request_error");
    }
    assert!(mock.journal().is_empty());
}

#[tokio::test]
async fn usage_can_be_left_out() {
    let mock = MockUpstream::start(fast()).unwrap();
    let answer = ask(&mock.url(), CHAT, &chat("no_usage")).await.json();
    assert!(answer.get("usage").is_none());
    let mut request = chat("no_usage");
    request["stream"] = true.into();
    request["stream_options"] = json!({ "include_usage": true });
    assert!(!ask(&mock.url(), CHAT, &request).await.text.contains("usage"));
}
