//! Upstreams that fail: what the client sees, what is billed, who is asked instead.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::world::{Wishes, World, chat, cost, events, json_of, refusal, stream};

#[tokio::test]
async fn before_any_output_nothing_is_charged() {
    let mut world = World::with(Wishes {
        config: "[routing]\nallowed_failures = 0\n[limits]\nupstream_timeout_seconds = 1\n",
        ..Wishes::default()
    })
    .await;
    for (mock, expected, expected_code) in [
        ("nothing", 502, "upstream_error"),
        ("garbage", 502, "upstream_error"),
        ("status=500", 502, "upstream_error"),
        ("status=429", 502, "upstream_error"),
        ("status=401", 502, "upstream_error"),
        ("hang", 504, "upstream_timeout"),
    ] {
        for body in [chat(mock), stream(mock)] {
            let (status, code, body) = refusal(world.chat(&body).await).await;
            assert_eq!((status, &*code), (expected, expected_code), "{mock}: {body}");
            assert_eq!(body["error"]["type"], "server_error");
        }
    }
    // A whole answer that broke off was seen by nobody.
    assert_eq!(refusal(world.chat(&chat("half,tokens=40")).await).await.0, 502);
    assert!(world.bills().await.is_empty());
}

#[tokio::test]
async fn an_upstreams_refusal_of_the_request_is_passed_on() {
    let mut world = World::with(Wishes { deployments: 2, ..Wishes::default() }).await;
    for status in [400, 404, 422] {
        let response = world.chat(&chat(&format!("status={status}"))).await;
        assert_eq!(response.status().as_u16(), status);
        assert!(response.headers().contains_key("x-tallyweir-deployment"));
        let body: Value = json_of(response).await;
        assert!(body["error"]["message"].is_string(), "{body}");
    }
    assert_eq!(world.sent().len(), 3, "no other deployment was asked");
    assert!(world.bills().await.is_empty());
}

#[tokio::test]
async fn half_a_stream_ends_with_an_error_and_is_charged_for_that_half() {
    let mut world = World::start().await;
    let text = world.chat(&stream("half,tokens=20")).await.text().await.unwrap();
    let last: Value = serde_json::from_str(events(&text).last().unwrap()).unwrap();
    assert_eq!(last["error"]["code"], "upstream_error", "{text}");
    let bills = world.bills().await;
    let sent = &world.sent()[0];
    assert_eq!(bills.len(), 1);
    assert_eq!((bills[0].prompt_tokens, bills[0].completion_tokens), (sent.prompt_tokens, 10));
    assert_eq!(bills[0].cost, cost(sent.prompt_tokens, 0, 10));
    assert_eq!(bills[0].status, "partial");
}

#[tokio::test]
async fn another_deployment_answers_when_one_fails_before_any_output() {
    let mut world = World::with(Wishes { deployments: 2, ..Wishes::default() }).await;
    for mock in ["status=500", "status=429", "nothing", "garbage"] {
        world.mocks[0].control(mock.parse().unwrap());
        for mut body in [chat(""), stream("")] {
            body.as_object_mut().unwrap().remove("metadata");
            let response = world.chat(&body).await;
            assert_eq!(response.headers()["x-tallyweir-deployment"], "small-1", "{mock}");
            assert_eq!(response.status(), 200, "{mock}");
            assert!(!response.text().await.unwrap().is_empty());
        }
    }
    // One bill for each request, and the first deployment is asked no more than it is allowed to fail.
    assert_eq!(world.bills().await.len(), 8);
    assert_eq!(world.sent().iter().filter(|line| line.outcome.as_deref() == Some("complete")).count(), 8);
}

#[tokio::test]
async fn a_deployment_that_fails_is_cooled_and_asked_no_more() {
    let mut world = World::with(Wishes {
        deployments: 2,
        config: "[routing]\nallowed_failures = 2\naffinity_seconds = 0\n",
        ..Wishes::default()
    })
    .await;
    world.mocks[0].control("status=500".parse().unwrap());
    for _ in 0..10 {
        let mut body = chat("");
        body.as_object_mut().unwrap().remove("metadata");
        assert_eq!(world.chat(&body).await.status(), 200);
    }
    assert!(world.mocks[0].journal().len() <= 4, "begin and end of two requests at most");
    assert_eq!(world.bills().await.len(), 10);
}

#[tokio::test]
async fn a_stream_that_falls_silent_is_cut_and_charged() {
    let mut world =
        World::with(Wishes { config: "[limits]\nupstream_idle_timeout_seconds = 1\n", ..Wishes::default() })
            .await;
    let began = Instant::now();
    let text = world.chat(&stream("interval_ms=5000,tokens=10")).await.text().await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(8));
    let last: Value = serde_json::from_str(events(&text).last().unwrap()).unwrap();
    assert_eq!(last["error"]["code"], "upstream_timeout", "{text}");
    let bills = world.bills().await;
    assert_eq!((bills.len(), &*bills[0].status), (1, "partial"));
    assert!(bills[0].completion_tokens <= 1);
}

#[tokio::test]
async fn a_conversation_stays_with_its_deployment() {
    let world = World::with(Wishes { deployments: 3, ..Wishes::default() }).await;
    let mut by = Vec::new();
    for _ in 0..6 {
        let mut body = chat("tokens=20");
        body["prompt_cache_key"] = "talk-1".into();
        let response = world.chat(&body).await;
        by.push(response.headers()["x-tallyweir-deployment"].to_str().unwrap().to_owned());
        response.text().await.unwrap();
        // What was learnt of the first answer is kept after it.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    by.dedup();
    assert_eq!(by.len(), 1, "{by:?}");
}
