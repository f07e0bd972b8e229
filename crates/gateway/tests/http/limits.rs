//! Limits per minute: what is counted, settled and given back.

use rate_plan::Limits;
use serde_json::Value;

use crate::world::{GRACE, Wishes, World, chat, json_of, number, refusal, stream};

/// A minute has passed under the test when the second answer is of another one; then it is tried again.
async fn in_one_minute<T>(attempt: impl AsyncFn() -> (T, bool)) -> T {
    for _ in 0..3 {
        let (found, same) = attempt().await;
        if same {
            return found;
        }
    }
    panic!("three minutes ended in three attempts");
}

fn minute() -> i64 {
    chrono::Utc::now().timestamp() / 60
}

#[tokio::test]
async fn a_reached_limit_is_named_with_its_scope_and_a_time_to_come_back() {
    let (status, code, body, headers) = in_one_minute(async || {
        let began = minute();
        let team = Limits { rpm: Some(1), tpm: None };
        let world = World::with(Wishes { team, ..Wishes::default() }).await;
        let first = world.chat(&chat("tokens=1")).await;
        assert_eq!(number(&first, "x-ratelimit-remaining-requests"), 0);
        assert!(first.headers().contains_key("ratelimit"));
        let second = world.chat(&chat("tokens=1")).await;
        let headers = second.headers().clone();
        let (status, code, body) = refusal(second).await;
        ((status, code, body, headers), began == minute())
    })
    .await;
    assert_eq!((status, &*code), (429, "rate_limit_exceeded"));
    assert_eq!(body["error"]["type"], "rate_limit");
    let message = body["error"]["message"].as_str().unwrap();
    assert!(message.contains("team/blue") && message.contains("rpm_limit"), "{message}");
    let wait: u64 = headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait));
    assert!(!headers.contains_key("x-should-retry"));
    assert_eq!(headers["x-ratelimit-limit-requests"], "1");
}

#[tokio::test]
async fn what_can_never_fit_is_refused_for_good() {
    let key = Limits { rpm: None, tpm: Some(50) };
    let mut world = World::with(Wishes { key, ..Wishes::default() }).await;
    let response = world.chat(&chat("tokens=1")).await;
    assert_eq!(response.headers()["x-should-retry"], "false");
    assert!(!response.headers().contains_key("retry-after"));
    let (status, code, body) = refusal(response).await;
    assert_eq!((status, &*code), (400, "request_exceeds_limit"), "{body}");
    let mut body = chat("tokens=1");
    body["max_tokens"] = 5.into();
    assert_eq!(world.chat(&body).await.status(), 200);
    assert_eq!(world.bills().await.len(), 1);
}

#[tokio::test]
async fn an_estimate_is_settled_to_what_was_used() {
    let (left, used) = in_one_minute(async || {
        let began = minute();
        let key = Limits { rpm: None, tpm: Some(10_000) };
        let mut world = World::with(Wishes { key, ..Wishes::default() }).await;
        let answer: Value = json_of(world.chat(&chat("tokens=4")).await).await;
        let text = world.chat(&stream("tokens=4")).await.text().await.unwrap();
        assert!(text.ends_with("data: [DONE]\n\n"));
        let used = 2 * answer["usage"]["total_tokens"].as_u64().unwrap();
        world.stop(GRACE).await;
        let identity =
            world.keyring.authenticate(&world.secret.clone().into(), chrono::Utc::now()).await.unwrap();
        let trees = iam_ledger::RateTreeCache::new(world.ledger.clone(), 1);
        let plan = trees.plan(&identity).await.unwrap();
        let admission = world.hot.admit_rate_plan(&plan, 0, chrono::Utc::now()).await.unwrap();
        let left = admission.decision().admitted().unwrap().tpm.unwrap().remaining;
        ((left, used), began == minute())
    })
    .await;
    assert_eq!(left, 10_000 - used);
}

#[tokio::test]
async fn a_call_that_did_not_run_is_given_back() {
    let (first, second) = in_one_minute(async || {
        let began = minute();
        let key = Limits { rpm: Some(10), tpm: Some(10_000) };
        let world = World::with(Wishes { key, ..Wishes::default() }).await;
        let mut left = Vec::new();
        for mock in ["nothing", "status=500", "status=404"] {
            let response = world.chat(&chat(mock)).await;
            assert!(response.status().is_client_error() || response.status().is_server_error());
            left.push((
                number(&response, "x-ratelimit-remaining-requests"),
                number(&response, "x-ratelimit-remaining-tokens"),
            ));
        }
        ((left[0], left[2]), began == minute())
    })
    .await;
    assert_eq!(first, second, "nothing of those before is counted");
}
