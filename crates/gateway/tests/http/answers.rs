//! Answers, and that each is billed for what the upstream says that it sent.

use serde_json::{Value, json};
use spend_queue::ScopeRef;

use crate::world::{World, chat, cost, events, json_of, stream};

#[tokio::test]
async fn a_plain_answer_comes_as_the_upstream_gave_it_and_is_billed_exactly() {
    let mut world = World::start().await;
    let response = world.chat(&chat("tokens=7,cached=3")).await;
    assert_eq!(response.status(), 200);
    let id = response.headers()["x-request-id"].to_str().unwrap().to_owned();
    assert_eq!(response.headers()["x-tallyweir-deployment"], "small-0");
    assert_eq!(response.headers()["x-litellm-key-spend"], "0");
    let answer: Value = json_of(response).await;
    assert_eq!(answer["usage"]["completion_tokens"], 7);

    let bills = world.bills().await;
    let [bill] = &bills[..] else { panic!("{bills:?}") };
    let sent = &world.sent()[0];
    assert_eq!((bill.request_id.as_str(), sent.request_id.as_deref()), (&*id, Some(&*id)));
    assert_eq!((bill.prompt_tokens, bill.cached_tokens, bill.completion_tokens), (sent.prompt_tokens, 3, 7));
    assert_eq!(bill.cost, cost(sent.prompt_tokens, 3, 7));
    assert_eq!((&*bill.status, &*bill.call_type, &*bill.model), ("success", "chat", "small"));
    let scopes = [("key", "laptop"), ("team", "blue"), ("organization", "acme")];
    assert_eq!(bill.scopes, scopes.map(|(kind, id)| ScopeRef::new(kind, id).unwrap()));
    assert_eq!(bill.organization_id.as_deref(), Some("acme"));
}

#[tokio::test]
async fn a_stream_is_passed_on_and_its_usage_is_shown_only_to_who_asked() {
    let mut world = World::start().await;
    for include in [false, true] {
        let mut body = stream("tokens=5");
        if include {
            body["stream_options"] = json!({"include_usage": true});
        }
        let response = world.chat(&body).await;
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let text = response.text().await.unwrap();
        let events = events(&text);
        assert_eq!(*events.last().unwrap(), "[DONE]");
        let parts: Vec<Value> =
            events[..events.len() - 1].iter().map(|event| serde_json::from_str(event).unwrap()).collect();
        assert_eq!(parts.iter().any(|part| part["usage"].is_object()), include, "{text}");
        let words = parts
            .iter()
            .filter(|part| part["choices"][0]["delta"]["content"].as_str().is_some_and(|it| !it.is_empty()));
        assert_eq!(words.count(), 5);
    }
    let bills = world.bills().await;
    assert_eq!(bills.len(), 2);
    for (bill, sent) in bills.iter().zip(world.sent()) {
        assert_eq!((bill.completion_tokens, bill.cost), (5, cost(sent.prompt_tokens, 0, 5)));
        assert!(bill.time_to_first_token_ms.is_some());
    }
}

#[tokio::test]
async fn an_answer_that_a_client_has_whole_is_billed_already() {
    let world = World::start().await;
    let organization = ScopeRef::new("organization", "acme").unwrap();
    for (place, body) in [chat("tokens=1"), stream("tokens=1")].iter().enumerate() {
        let text = world.chat(body).await.text().await.unwrap();
        assert!(!text.is_empty());
        let pending = spend_queue::PendingSpend::pending(&world.hot, &organization).await.unwrap();
        let one = cost(world.sent()[0].prompt_tokens, 0, 1).unwrap();
        assert_eq!(pending, one.checked_mul(u64::try_from(place).unwrap() + 1).unwrap());
    }
}

#[tokio::test]
async fn embeddings_cost_their_input() {
    let mut world = World::start().await;
    for input in [json!("two words"), json!(["two words", "more"]), json!([[1, 2, 3], [4]])] {
        let response =
            world.post("embeddings", &json!({"model": "embed", "input": input})).send().await.unwrap();
        assert_eq!(response.status(), 200, "{input}");
        let answer: Value = json_of(response).await;
        assert!(answer["data"][0]["embedding"].is_array());
    }
    let bills = world.bills().await;
    assert_eq!(bills.len(), 3);
    for (bill, sent) in bills.iter().zip(world.sent()) {
        assert_eq!((bill.prompt_tokens, bill.completion_tokens), (sent.prompt_tokens, 0));
        assert_eq!((bill.cost, &*bill.call_type), (cost(sent.prompt_tokens, 0, 0), "embedding"));
    }
}

#[tokio::test]
async fn what_an_upstream_does_not_count_is_counted_as_it_would() {
    let mut world = World::start().await;
    for body in [chat("tokens=9,no_usage"), stream("tokens=9,no_usage")] {
        world.chat(&body).await.text().await.unwrap();
    }
    for (bill, sent) in world.bills().await.iter().zip(world.sent()) {
        assert_eq!((bill.prompt_tokens, bill.completion_tokens), (sent.prompt_tokens, 9));
        assert_eq!(&*bill.status, "success");
    }
}

#[tokio::test]
async fn fields_that_the_gateway_does_not_know_reach_the_upstream() {
    let mut world = World::start().await;
    // The mock reads `metadata`; `max_tokens` bounds its answer.
    let mut body = chat("tokens=50");
    body["max_tokens"] = 3.into();
    body["unheard_of"] = json!({"of": [1.5]});
    let answer: Value = json_of(world.chat(&body).await).await;
    assert_eq!(answer["usage"]["completion_tokens"], 3);
    // The model's own bound is told to the upstream when the client names none.
    let answer: Value = json_of(world.chat(&chat("tokens=500")).await).await;
    assert_eq!(answer["usage"]["completion_tokens"], 64);
    assert_eq!(world.bills().await.len(), 2);
}

#[tokio::test]
async fn the_spend_of_a_key_is_shown_as_it_grows() {
    let world = World::start().await;
    world.chat(&chat("tokens=1")).await.text().await.unwrap();
    let one = cost(world.sent()[0].prompt_tokens, 0, 1).unwrap();
    // A read serves for a tenth of a second.
    for _ in 0..100 {
        let response = world.chat(&chat("status=400")).await;
        if response.headers()["x-litellm-key-spend"].to_str().unwrap() == one.to_string() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("never shown");
}

#[tokio::test]
async fn models_are_listed_for_a_key() {
    let world = World::start().await;
    let get = || world.http.get(format!("{}/v1/models", world.url));
    let list: Value = json_of(get().bearer_auth(&world.secret).send().await.unwrap()).await;
    assert_eq!((&list["data"][0]["id"], &list["data"][1]["id"]), (&json!("small"), &json!("embed")));
    assert_eq!(get().send().await.unwrap().status(), 401);
}

#[tokio::test]
async fn machines_that_watch_are_answered() {
    let world = World::start().await;
    world.chat(&chat("tokens=1")).await.text().await.unwrap();
    let get = async |path: &str| {
        let response = world.http.get(format!("{}/{path}", world.url)).send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    };
    assert_eq!(get("livez").await, (200, "alive\n".to_owned()));
    assert_eq!(get("readyz").await, (200, "ready\n".to_owned()));
    let (status, metrics) = get("metrics").await;
    assert_eq!(status, 200);
    for name in ["requests_total", "bills_total", "overhead_seconds_bucket", "upstream_calls_total"] {
        assert!(metrics.contains(&format!("tallyweir_gateway_{name}")), "{name}");
    }
    assert!(!metrics.contains("laptop"), "no key is a label");
}
