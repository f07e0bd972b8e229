//! Budgets: looked at, or held.

use chrono::Utc;
use iam_ledger::{Budget, HoldState, NewIdentity};
use rate_plan::Limits;
use spend_queue::{ScopeRef, SpendEvent, SpendQueue, Usd};

use crate::world::{Wishes, World, chat, cost, number, refusal, stream};

#[tokio::test]
async fn a_budget_that_is_used_up_is_named_and_not_to_be_retried() {
    // Room for one answer of at most 64 tokens, and not for two.
    let wishes =
        Wishes { budget: Some("0.00006"), key: Limits { rpm: Some(10), tpm: None }, ..Wishes::default() };
    let mut world = World::with(wishes).await;
    let first = world.chat(&chat("tokens=60")).await;
    assert_eq!(first.status(), 200);
    assert!(first.headers().contains_key("x-litellm-key-spend"));
    first.text().await.unwrap();
    let second = world.chat(&chat("tokens=60")).await;
    assert_eq!(second.headers()["x-should-retry"], "false");
    assert!(!second.headers().contains_key("retry-after"));
    let (status, code, body) = refusal(second).await;
    assert_eq!((status, &*code), (429, "budget_exceeded"));
    assert_eq!(body["error"]["type"], "insufficient_quota");
    assert!(body["error"]["message"].as_str().unwrap().contains("organization/acme"), "{body}");
    // A smaller request still fits.
    let mut small = chat("tokens=1");
    small["max_tokens"] = 1.into();
    let third = world.chat(&small).await;
    assert_eq!(third.status(), 200);
    // The second was counted while its budget was looked at, and given back.
    assert_eq!(number(&third, "x-ratelimit-remaining-requests"), 8);
    assert_eq!(world.bills().await.len(), 2);
}

#[tokio::test]
async fn what_a_budget_beside_the_path_has_under_way_is_not_kept_for_it_twice() {
    let world = World::with(Wishes { budget: Some("1"), ..Wishes::default() }).await;
    let amount = |text: &str| Some(text.parse::<Usd>().unwrap());
    let beside = NewIdentity::key("beside", "").of_organization("acme");
    let beside = beside.with_budget(Budget { amount: amount("1"), ..Budget::default() });
    world.ledger.create_all(&[beside]).await.unwrap();
    // All of the organization's money is kept for the other key.
    let (status, code, _) = refusal(world.chat(&chat("tokens=3")).await).await;
    assert_eq!((status, &*code), (429, "budget_exceeded"));
    // Half of which it has in the queue, charged to it alone: so much is not kept any more.
    let mut event = SpendEvent::new("hot", "gpt-small", vec![ScopeRef::new("key", "beside").unwrap()]);
    event.cost = amount("0.5");
    world.hot.enqueue(&event.encode(Utc::now()).unwrap()).await.unwrap();
    assert_eq!(world.chat(&chat("tokens=3")).await.status(), 200);
}

#[tokio::test]
async fn held_money_is_released_when_nothing_is_charged_and_stays_until_the_bill_is_settled_otherwise() {
    let config = "[budget]\nmode = \"hold\"\n";
    let mut world = World::with(Wishes { budget: Some("1"), config, ..Wishes::default() }).await;
    let mut ids = Vec::new();
    for body in [chat("status=500"), chat("tokens=3"), stream("tokens=3")] {
        let response = world.chat(&body).await;
        ids.push(response.headers()["x-request-id"].to_str().unwrap().to_owned());
        response.text().await.unwrap();
    }
    let bills = world.bills().await;
    assert_eq!(bills.iter().map(|bill| &bill.request_id).collect::<Vec<_>>(), [&ids[1], &ids[2]]);
    for (id, state) in ids.iter().zip([HoldState::Released, HoldState::Held, HoldState::Held]) {
        let hold = world.ledger.hold_of(id).await.unwrap().unwrap();
        assert_eq!(hold.state, state);
        let sent = &world.sent()[0];
        assert_eq!(Some(hold.amount), cost(sent.prompt_tokens, 0, 64), "the most that it could cost");
    }
}

#[tokio::test]
async fn held_money_bounds_requests_that_run_at_once() {
    let config = "[budget]\nmode = \"hold\"\n";
    // Each can cost 0.0000384 USD and some for its prompt: two fit, three do not.
    let mut world = World::with(Wishes { budget: Some("0.0001"), config, ..Wishes::default() }).await;
    let requests = (0..6).map(|_| world.post("chat/completions", &chat("tokens=60,latency_ms=200")).send());
    let mut statuses: Vec<_> = futures_util::future::join_all(requests)
        .await
        .into_iter()
        .map(|it| it.unwrap().status().as_u16())
        .collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 200, 429, 429, 429, 429]);
    assert_eq!(world.bills().await.len(), 2);
}
