//! Who leaves early: clients, and the gateway itself.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::Value;

use crate::world::{GRACE, World, chat, cost, events, stream};

/// Reads until so many parts of a stream with text have come.
async fn read(response: &mut reqwest::Response, parts: usize) -> String {
    let mut text = String::new();
    while text.matches("\"content\":").count() < parts {
        text += std::str::from_utf8(&response.chunk().await.unwrap().unwrap()).unwrap();
    }
    text
}

#[tokio::test]
async fn a_client_that_leaves_in_mid_stream_is_charged_once_for_what_was_produced() {
    let mut world = World::start().await;
    let mut response = world.chat(&stream("interval_ms=20,tokens=60")).await;
    let id = response.headers()["x-request-id"].to_str().unwrap().to_owned();
    read(&mut response, 5).await;
    drop(response);
    let bills = world.bills().await;
    assert_eq!(bills.len(), 1);
    let (bill, sent) = (&bills[0], &world.sent()[0]);
    assert_eq!((&bill.request_id, &*bill.status), (&id, "partial"));
    assert_eq!(sent.outcome.as_deref(), Some("client_gone"), "the upstream was told");
    assert_eq!(bill.prompt_tokens, sent.prompt_tokens);
    assert!((4..30).contains(&bill.completion_tokens), "{bill:?}");
    assert!(bill.completion_tokens <= sent.completion_tokens, "{bill:?} {sent:?}");
    assert_eq!(bill.cost, cost(bill.prompt_tokens, 0, bill.completion_tokens));
}

#[tokio::test]
async fn a_client_that_leaves_while_the_upstream_is_silent_is_noticed() {
    let mut world = World::start().await;
    let mut response = world.chat(&stream("interval_ms=20000,tokens=2")).await;
    response.chunk().await.unwrap();
    let left = Instant::now();
    drop(response);
    assert_eq!(world.bills().await.len(), 1);
    assert!(left.elapsed() < Duration::from_secs(10), "nobody waited for the upstream");
}

#[tokio::test]
async fn a_client_that_leaves_before_a_whole_answer_is_charged_for_all_of_it() {
    let mut world = World::start().await;
    let request = world.post("chat/completions", &chat("latency_ms=300,tokens=7")).send();
    assert!(tokio::time::timeout(Duration::from_millis(150), request).await.is_err());
    let bills = world.bills().await;
    assert_eq!((bills.len(), bills[0].completion_tokens, &*bills[0].status), (1, 7, "success"));
}

#[tokio::test]
async fn many_clients_that_leave_are_each_charged_once() {
    let mut world = World::start().await;
    let left = join_all((0..40).map(|place| {
        let request = world.post("chat/completions", &stream("interval_ms=5,tokens=60"));
        async move {
            let mut response = request.send().await.unwrap();
            let id = response.headers()["x-request-id"].to_str().unwrap().to_owned();
            read(&mut response, place % 8).await;
            id
        }
    }));
    let mut ids = left.await;
    let mut billed: Vec<_> = world.bills().await.into_iter().map(|bill| bill.request_id).collect();
    ids.sort_unstable();
    billed.sort_unstable();
    assert_eq!(ids, billed);
}

#[tokio::test]
async fn a_stop_lets_streams_end_within_the_grace() {
    let mut world = World::start().await;
    let mut response = world.chat(&stream("interval_ms=20,tokens=30")).await;
    let mut text = read(&mut response, 1).await;
    let gateway = world.take_gateway();
    let stopping = tokio::spawn(async move { gateway.stop(GRACE).await });
    while let Some(chunk) = response.chunk().await.unwrap() {
        text += std::str::from_utf8(&chunk).unwrap();
    }
    assert_eq!(*events(&text).last().unwrap(), "[DONE]");
    stopping.await.unwrap();
    assert!(world.http.get(format!("{}/livez", world.url)).send().await.is_err(), "nothing is accepted");
    assert_eq!(world.bills().await[0].status, "success");
}

#[tokio::test]
async fn a_stop_cuts_what_does_not_end_within_the_grace_and_bills_it() {
    let mut world = World::start().await;
    let mut response = world.chat(&stream("interval_ms=50,tokens=60")).await;
    let mut text = read(&mut response, 2).await;
    let waiting = tokio::spawn(world.post("chat/completions", &chat("hang")).send());
    let gateway = world.take_gateway();
    let began = Instant::now();
    let stopping = tokio::spawn(async move { gateway.stop(Duration::from_millis(300)).await });
    while let Some(chunk) = response.chunk().await.unwrap() {
        text += std::str::from_utf8(&chunk).unwrap();
    }
    let last: Value = serde_json::from_str(events(&text).last().unwrap()).unwrap();
    assert_eq!(last["error"]["code"], "shutting_down", "{text}");
    stopping.await.unwrap();
    assert!(began.elapsed() < Duration::from_millis(1_300), "{:?}", began.elapsed());
    // Either its connection was never accepted, or it was told.
    if let Ok(response) = waiting.await.unwrap() {
        assert_eq!(response.status(), 503);
    }
    let bills = world.bills().await;
    assert_eq!((bills.len(), &*bills[0].status), (1, "partial"));
    let produced = text.matches("\"content\":").count();
    assert!(bills[0].completion_tokens > 0 && bills[0].completion_tokens <= u64::try_from(produced).unwrap());
}
