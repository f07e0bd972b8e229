//! Servers that are gone: nothing runs uncounted, and no bill is lost.

use std::time::{Duration, Instant};

use devstack::RedisServer;
use mock_upstream::Moment;
use rate_plan::Limits;

use crate::world::{Wishes, World, chat, refusal, stream};

#[tokio::test]
async fn without_redis_nothing_is_admitted_and_readyz_says_so() {
    let redis = RedisServer::builder().start().unwrap();
    let world = World::with(Wishes { redis: Some(redis.url().to_owned()), ..Wishes::default() }).await;
    assert_eq!(world.chat(&chat("tokens=1")).await.status(), 200);
    drop(redis);
    let (status, code, _) = refusal(world.chat(&chat("tokens=1")).await).await;
    assert_eq!((status, &*code), (503, "rate_limit_unavailable"));
    let ready = world.http.get(format!("{}/readyz", world.url)).send().await.unwrap();
    assert_eq!(ready.status(), 503);
    assert!(ready.text().await.unwrap().contains("Redis"));
    assert_eq!(world.sent().len(), 1);
}

#[tokio::test]
async fn without_redis_a_limited_budget_cannot_be_told() {
    let redis = RedisServer::builder().start().unwrap();
    let wishes = Wishes { redis: Some(redis.url().to_owned()), budget: Some("1"), ..Wishes::default() };
    let world = World::with(wishes).await;
    assert_eq!(world.chat(&chat("tokens=1")).await.status(), 200);
    drop(redis);
    let (status, code, _) = refusal(world.chat(&chat("tokens=1")).await).await;
    assert_eq!((status, &*code), (503, "budget_unavailable"));
}

#[tokio::test]
async fn a_bill_that_redis_does_not_take_is_on_disk_before_the_answer_ends() {
    let redis = RedisServer::builder().start().unwrap();
    let wishes = Wishes { redis: Some(redis.url().to_owned()), spool: true, ..Wishes::default() };
    let mut world = World::with(wishes).await;
    let mut response = world.chat(&stream("interval_ms=20,tokens=10")).await;
    response.chunk().await.unwrap();
    drop(redis);
    let mut text = String::new();
    while let Some(chunk) = response.chunk().await.unwrap() {
        text += std::str::from_utf8(&chunk).unwrap();
    }
    assert!(text.ends_with("data: [DONE]\n\n"), "{text}");
    // It says so by itself, and once more when it ends.
    let give_up = Instant::now() + Duration::from_secs(20);
    while world.ledger.announced_spools(9).await.unwrap().is_empty() {
        assert!(Instant::now() < give_up, "the gateway does not say what its spool holds");
        tokio::task::yield_now().await;
    }
    world.stop(Duration::from_secs(5)).await;
    let said = world.ledger.announced_spools(9).await.unwrap();
    let [(said, _)] = &said[..] else { panic!("{said:?}") };
    assert!(said.events == 1 && said.bytes > 100 && said.oldest.is_some(), "{said:?}");
    assert!(said.instance.ends_with("/bills.spool"), "{said:?}");
    assert_eq!(world.spooled(), 1);
}

#[tokio::test]
async fn an_answer_whose_bill_nobody_takes_is_not_given_to_its_end() {
    let redis = RedisServer::builder().start().unwrap();
    let world = World::with(Wishes { redis: Some(redis.url().to_owned()), ..Wishes::default() }).await;
    let mut response = world.chat(&stream("interval_ms=20,tokens=10")).await;
    response.chunk().await.unwrap();
    let whole = tokio::spawn(world.post("chat/completions", &chat("latency_ms=300,tokens=3")).send());
    // Both are at the upstream by now, so both were admitted.
    while world.mocks[0].journal().iter().filter(|line| line.event == Moment::Begin).count() < 2 {
        tokio::task::yield_now().await;
    }
    drop(redis);
    let mut text = String::new();
    while let Some(chunk) = response.chunk().await.unwrap() {
        text += std::str::from_utf8(&chunk).unwrap();
    }
    assert!(!text.contains("[DONE]") && text.contains("billing_unavailable"), "{text}");
    let (status, code, _) = refusal(whole.await.unwrap().unwrap()).await;
    assert_eq!((status, &*code), (503, "billing_unavailable"));
}

#[tokio::test]
async fn without_postgresql_known_keys_go_on_and_unknown_ones_are_503() {
    let world = World::with(Wishes { key: Limits { rpm: Some(100), tpm: None }, ..Wishes::default() }).await;
    assert_eq!(world.chat(&chat("tokens=1")).await.status(), 200);
    world.ledger.close().await;
    let began = Instant::now();
    let response = world.chat(&chat("tokens=1")).await;
    assert_eq!(response.status(), 200);
    assert!(began.elapsed() < Duration::from_secs(1));
    let unknown = format!("tw_{}", "A".repeat(43));
    let request = world.http.post(format!("{}/v1/chat/completions", world.url)).bearer_auth(unknown);
    let (status, code, _) = refusal(request.body(chat("").to_string()).send().await.unwrap()).await;
    assert_eq!((status, &*code), (503, "identity_unavailable"));
}
