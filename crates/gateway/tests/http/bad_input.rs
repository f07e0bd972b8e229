//! What clients send by mistake: each a clear error, and nothing of it reaches an upstream or a bill.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::world::{Wishes, World, chat, refusal};

fn with(field: &str, value: Value) -> String {
    let mut body = chat("");
    body[field] = value;
    body.to_string()
}

fn without(field: &str) -> String {
    let mut body = chat("");
    body.as_object_mut().unwrap().remove(field);
    body.to_string()
}

#[tokio::test]
async fn what_makes_no_sense_is_named_and_goes_nowhere() {
    let mut world = World::start().await;
    let messages = |messages: Value| with("messages", messages);
    let cases = [
        (String::new(), 400, "invalid_json", None),
        ("{".to_owned(), 400, "invalid_json", None),
        ("[1]".to_owned(), 400, "invalid_json", None),
        ("{\"model\":\"small\",}".to_owned(), 400, "invalid_json", None),
        (without("model"), 400, "invalid_value", Some("model")),
        (with("model", json!(7)), 400, "invalid_value", Some("model")),
        (with("model", json!("large")), 404, "model_not_found", Some("model")),
        (with("model", json!("embed")), 404, "model_not_found", Some("model")),
        (without("messages"), 400, "invalid_value", Some("messages")),
        (messages(json!([])), 400, "invalid_value", Some("messages")),
        (messages(json!("canary")), 400, "invalid_value", Some("messages")),
        (messages(json!([{"content": "canary"}])), 400, "invalid_value", Some("messages")),
        (messages(json!([{"role": 1, "content": "canary"}])), 400, "invalid_value", Some("messages")),
        (messages(json!([{"role": "user", "content": 5}])), 400, "invalid_value", Some("messages")),
        (
            messages(json!([{"role": "user", "content": [{"text": "canary"}]}])),
            400,
            "invalid_value",
            Some("messages"),
        ),
        (
            messages(json!([{"role": "user", "content": [{"type": "text", "text": 1}]}])),
            400,
            "invalid_value",
            Some("messages"),
        ),
        (with("max_tokens", json!(-1)), 400, "invalid_value", Some("max_tokens")),
        (with("max_tokens", json!(0)), 400, "invalid_value", Some("max_tokens")),
        (with("max_tokens", json!(1.5)), 400, "invalid_value", Some("max_tokens")),
        (with("max_tokens", json!("9")), 400, "invalid_value", Some("max_tokens")),
        (with("max_completion_tokens", json!(-7)), 400, "invalid_value", Some("max_completion_tokens")),
        (with("n", json!(0)), 400, "invalid_value", Some("n")),
        (with("n", json!(129)), 400, "invalid_value", Some("n")),
        (with("stream", json!("yes")), 400, "invalid_value", Some("stream")),
        (
            with("stream_options", json!({"include_usage": true})),
            400,
            "invalid_value",
            Some("stream_options"),
        ),
        (
            messages(json!([{"role": "user", "content": "many words ".repeat(70_000)}])),
            400,
            "context_length_exceeded",
            Some("messages"),
        ),
    ];
    for (body, expected, expected_code, param) in cases {
        let start: String = body.chars().take(200).collect();
        let request =
            world.http.post(format!("{}/v1/chat/completions", world.url)).bearer_auth(&world.secret);
        let (status, code, error) = refusal(request.body(body).send().await.unwrap()).await;
        assert_eq!((status, &*code), (expected, expected_code), "{start}");
        assert_eq!(error["error"]["param"].as_str(), param, "{start}");
        assert!(!error.to_string().contains("canary"), "{error}");
    }
    for input in [json!(null), json!([]), json!({}), json!([1, "x"]), json!([[1.5]])] {
        let response =
            world.post("embeddings", &json!({"model": "embed", "input": input})).send().await.unwrap();
        let (status, code, body) = refusal(response).await;
        assert_eq!(
            (status, &*code, &body["error"]["param"]),
            (400, "invalid_value", &json!("input")),
            "{input}"
        );
    }
    let get = world.http.get(format!("{}/v1/chat/completions", world.url)).send().await.unwrap();
    assert_eq!(refusal(get).await.0, 405);
    let nowhere = world.http.get(format!("{}/v1/nowhere", world.url)).send().await.unwrap();
    assert_eq!(refusal(nowhere).await.0, 404);
    assert!(world.bills().await.is_empty());
    assert!(world.sent().is_empty());
}

#[tokio::test]
async fn a_body_beyond_the_bound_is_413_announced_or_not() {
    let mut world = World::start().await;
    let large = vec![b' '; 2 << 20];
    let post = || world.http.post(format!("{}/v1/chat/completions", world.url)).bearer_auth(&world.secret);
    let announced = post().body(large.clone()).send().await.unwrap();
    assert_eq!(refusal(announced).await.0, 413);
    // In chunks, without a length.
    let mut client = TcpStream::connect(world.url.trim_start_matches("http://")).await.unwrap();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\ntransfer-encoding: chunked\r\n\r\n",
        world.secret
    );
    client.write_all(head.as_bytes()).await.unwrap();
    client.write_all(format!("{:x}\r\n", large.len()).as_bytes()).await.unwrap();
    client.write_all(&large).await.unwrap();
    client.write_all(b"\r\n0\r\n\r\n").await.unwrap();
    let mut answer = vec![0; 12];
    client.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, b"HTTP/1.1 413");
    // Who asks first need not send.
    let mut client = TcpStream::connect(world.url.trim_start_matches("http://")).await.unwrap();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\ncontent-length: {}\r\nexpect: 100-continue\r\n\r\n",
        world.secret,
        1_u64 << 40
    );
    client.write_all(head.as_bytes()).await.unwrap();
    client.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, b"HTTP/1.1 413");
    assert!(world.bills().await.is_empty());
}

#[tokio::test]
async fn slow_bodies_and_heads_time_out_and_heads_are_bounded() {
    let world =
        World::with(Wishes { config: "[limits]\nread_timeout_seconds = 1\n", ..Wishes::default() }).await;
    let address = world.url.trim_start_matches("http://").to_owned();
    let exchange = async |text: String| {
        let mut client = TcpStream::connect(&address).await.unwrap();
        client.write_all(text.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(10), client.read_to_end(&mut answer)).await;
        let _ = read.expect("the connection was closed");
        String::from_utf8(answer).unwrap()
    };
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\ncontent-length: 100\r\n",
        world.secret
    );
    let slow_body = exchange(format!("{head}\r\n{{")).await;
    assert!(slow_body.starts_with("HTTP/1.1 408") && slow_body.contains("request_timeout"), "{slow_body}");
    // No head, no answer: a connection that says nothing is only closed.
    let slow_head = exchange(head.clone()).await;
    assert!(slow_head.is_empty() || slow_head.starts_with("HTTP/1.1 408"), "{slow_head}");
    let long_head = exchange(format!("{head}x-long: {}\r\n\r\n", "x".repeat(64 << 10))).await;
    assert!(long_head.is_empty() || long_head.starts_with("HTTP/1.1 431"), "{long_head}");
}
