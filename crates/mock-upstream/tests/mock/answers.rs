//! What it answers when nothing goes wrong, and that the journal says the same.

use mock_upstream::{Kind, MockOptions, MockUpstream, Moment, count_text};
use serde_json::{Value, json};

use crate::client::{ask, chat, ended, fast, open, read};

const CHAT: &str = "/v1/chat/completions";

#[tokio::test]
async fn usage_is_what_was_sent_and_the_journal_agrees() {
    let mock = MockUpstream::start(fast()).unwrap();
    let answer = ask(&mock.url(), CHAT, &chat("tokens=9, cached=4")).await.json();
    let content = answer["choices"][0]["message"]["content"].as_str().unwrap();
    assert_eq!(count_text(content), 9);
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    let usage = json!({ "prompt_tokens": 8, "completion_tokens": 9, "total_tokens": 17,
        "prompt_tokens_details": { "cached_tokens": 4 } });
    assert_eq!(answer["usage"], usage);
    let [begin, end] = &mock.journal()[..] else { panic!("two lines") };
    assert_eq!((begin.event, begin.completion_tokens, begin.outcome.as_deref()), (Moment::Begin, 0, None));
    assert_eq!((end.event, end.kind, end.stream), (Moment::End, Kind::Chat, false));
    assert_eq!((end.prompt_tokens, end.cached_tokens, end.completion_tokens), (8, 4, 9));
    assert_eq!((end.request_id.as_deref(), end.outcome.as_deref()), (Some("r1"), Some("complete")));
}

#[tokio::test]
async fn a_stream_has_an_event_a_token_and_usage_only_when_asked_for() {
    for include in [false, true] {
        let mock = MockUpstream::start(fast()).unwrap();
        let mut request = chat("");
        request["stream"] = true.into();
        request["max_tokens"] = 5.into();
        request["stream_options"] = json!({ "include_usage": include });
        let answer = ask(&mock.url(), CHAT, &request).await;
        assert!(answer.text.ends_with("data: [DONE]\n\n"), "{answer:?}");
        let events = answer.events();
        let parts = events.iter().filter_map(|event| event["choices"][0]["delta"]["content"].as_str());
        let parts: Vec<_> = parts.filter(|part| !part.is_empty()).collect();
        assert_eq!((parts.len(), count_text(&parts.concat())), (5, 5));
        assert!(events.iter().any(|event| event["choices"][0]["finish_reason"] == "length"));
        let usages: Vec<_> = events.iter().filter(|event| event["usage"].is_object()).collect();
        assert_eq!(usages.len(), usize::from(include));
        for event in usages {
            assert_eq!((&event["choices"], &event["usage"]["completion_tokens"]), (&json!([]), &json!(5)));
        }
        let end = ended(&mock).await;
        assert_eq!((end.stream, end.completion_tokens, end.outcome.as_deref()), (true, 5, Some("complete")));
    }
}

#[tokio::test]
async fn several_answers_count_several_times() {
    let mock = MockUpstream::start(fast()).unwrap();
    for stream in [false, true] {
        let mut request = chat("tokens=4");
        request["n"] = 3.into();
        request["stream"] = stream.into();
        let answer = ask(&mock.url(), CHAT, &request).await;
        assert!(answer.status.is_success());
    }
    let ends = mock.journal().into_iter().filter(|line| line.event == Moment::End);
    assert_eq!(ends.map(|line| line.completion_tokens).collect::<Vec<_>>(), [12, 12]);
}

#[tokio::test]
async fn embeddings_count_their_input_alone() {
    let mock = MockUpstream::start(fast()).unwrap();
    let request = json!({ "model": "e", "input": ["Hello", "Hello world"], "dimensions": 3 });
    let answer = ask(&mock.url(), "/v1/embeddings", &request).await.json();
    assert_eq!(answer["usage"], json!({ "prompt_tokens": 3, "total_tokens": 3 }));
    assert_eq!(answer["data"][1]["embedding"].as_array().unwrap().len(), 3);
    let end = ended(&mock).await;
    assert_eq!((end.kind, end.prompt_tokens, end.completion_tokens), (Kind::Embedding, 3, 0));
    let request = json!({ "model": "e", "input": "x", "encoding_format": "base64" });
    let answer = ask(&mock.url(), "/v1/embeddings", &request).await.json();
    assert!(answer["data"][0]["embedding"].is_string());
}

#[tokio::test]
async fn a_key_is_asked_for_when_there_is_one() {
    let options = MockOptions { api_key: Some("the key".to_owned().into()), ..fast() };
    let mock = MockUpstream::start(options).unwrap();
    for (header, status) in [(None, 401), (Some("Bearer another"), 401), (Some("Bearer the key"), 200)] {
        for (path, body) in [(CHAT, chat("").to_string()), ("/v1/models", String::new())] {
            let headers: Vec<_> = header.iter().map(|value| ("authorization", *value)).collect();
            let answer = read(open(&mock.url(), path, &headers, &body).await.unwrap()).await;
            assert_eq!(answer.status.as_u16(), status, "{path} {header:?}");
            assert!(!answer.text.contains("the key"));
        }
    }
}

#[tokio::test]
async fn the_journal_is_served_as_lines() {
    let mock = MockUpstream::start(fast()).unwrap();
    ask(&mock.url(), CHAT, &chat("")).await;
    let journal = read(open(&mock.url(), "/journal", &[], "").await.unwrap()).await;
    let lines: Vec<Value> = journal.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.iter().map(|line| &line["event"]).collect::<Vec<_>>(), ["begin", "end"]);
    assert!(lines[1]["ended_at"].as_str().unwrap() >= lines[1]["received_at"].as_str().unwrap());
}
