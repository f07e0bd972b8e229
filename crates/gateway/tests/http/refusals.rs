//! Refusals before anything is counted.

use iam_ledger::ScopeKind;

use crate::world::{World, chat, refusal};

#[tokio::test]
async fn a_missing_unknown_or_malformed_key_is_401() {
    let mut world = World::start().await;
    let post = || world.http.post(format!("{}/v1/chat/completions", world.url)).body(chat("").to_string());
    let unknown = format!("tw_{}", "A".repeat(43));
    for request in [
        post(),
        post().bearer_auth("nonsense"),
        post().bearer_auth(unknown),
        post().basic_auth("user", Some("password")),
        post().header("authorization", &world.secret),
        post().bearer_auth(&world.secret).header("authorization", "Bearer other"),
    ] {
        let response = request.send().await.unwrap();
        assert_eq!(response.headers()["www-authenticate"], "Bearer");
        let (status, code, body) = refusal(response).await;
        assert_eq!((status, &*code), (401, "invalid_api_key"));
        assert_eq!(body["error"]["type"], "invalid_request_error");
    }
    assert!(world.bills().await.is_empty());
    assert!(world.sent().is_empty());
}

#[tokio::test]
async fn a_blocked_scope_is_named() {
    let world = World::start().await;
    world.block(ScopeKind::Team, "blue").await;
    let (status, code, body) = refusal(world.chat(&chat("")).await).await;
    assert_eq!((status, &*code), (403, "blocked"));
    assert!(body["error"]["message"].as_str().unwrap().contains("team/blue"));
}

#[tokio::test]
async fn an_idempotency_key_makes_a_request_once() {
    let mut world = World::start().await;
    let post = |mock: &str| world.post("chat/completions", &chat(mock)).header("idempotency-key", "order-1");
    // What did not run does not use the key up.
    for mock in ["nothing", "status=404"] {
        assert!(!post(mock).send().await.unwrap().status().is_success());
    }
    let first = post("tokens=2").send().await.unwrap();
    assert_eq!(first.status(), 200);
    let id = first.headers()["x-request-id"].to_str().unwrap().to_owned();
    assert!(id.starts_with("laptop/"), "{id}");
    let again = post("tokens=2").send().await.unwrap();
    assert_eq!(again.headers()["x-should-retry"], "false");
    let (status, code, _) = refusal(again).await;
    assert_eq!((status, &*code), (409, "idempotency_key_reused"));
    let other = world.post("chat/completions", &chat("tokens=2")).header("idempotency-key", "order-2");
    assert_eq!(other.send().await.unwrap().status(), 200);

    let bills = world.bills().await;
    assert_eq!(bills.len(), 2);
    assert_eq!(bills[0].request_id, id);
}

#[tokio::test]
async fn of_many_requests_with_one_idempotency_key_one_runs() {
    let mut world = World::start().await;
    let requests = (0..20).map(|_| {
        let request = world.post("chat/completions", &chat("tokens=2,latency_ms=50"));
        async move { request.header("idempotency-key", "once").send().await.unwrap().status().as_u16() }
    });
    let mut statuses = futures_util::future::join_all(requests).await;
    statuses.sort_unstable();
    assert_eq!((statuses[0], statuses[1], statuses[19]), (200, 409, 409));
    assert_eq!(world.bills().await.len(), 1);
}
