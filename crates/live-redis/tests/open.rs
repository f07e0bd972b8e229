//! Opening fails with one line that names the step and never the password.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::time::{Duration, Instant};

use devstack::RedisServer;
use live_redis::{CallError, LiveRedis, LiveRedisError, OpenError, Options, Step};
use rate_plan::{Limits, Scope};
use tokio::net::TcpListener;

const CANARY: &str = "canary-password";

fn check(error: &OpenError, step: Step) {
    let text = format!("{error} {error:?}");
    assert_eq!(error.step, step, "{text}");
    assert!(!text.contains(CANARY) && !text.contains('\n'), "{text}");
}

#[tokio::test]
async fn a_malformed_url_fails_at_parsing() {
    for url in [
        "",
        "canary-password",
        "http://u:canary-password@h",
        "redis://u:canary-password@h:notaport",
        "redis://u:canary-password@h:1/notadb",
        "redis://u:canary-password@[::1",
    ] {
        check(&LiveRedis::open(url).await.unwrap_err(), Step::Parse);
    }
}

#[tokio::test]
async fn a_wrong_password_fails_at_connecting_and_the_right_one_works() {
    let server = RedisServer::builder().password(CANARY).start().unwrap();
    let wrong = format!("redis://:not-{CANARY}@127.0.0.1:{}", server.port());
    check(&LiveRedis::open(wrong).await.unwrap_err(), Step::Connect);
    let none = format!("redis://127.0.0.1:{}", server.port());
    check(&LiveRedis::open(none).await.unwrap_err(), Step::Ping);
    let redis = LiveRedis::open(server.url()).await.unwrap();
    assert!(!format!("{redis:?}").contains(CANARY));
}

#[tokio::test]
async fn a_server_that_is_not_there_fails_at_connecting() {
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let url = format!("redis://:{CANARY}@127.0.0.1:{port}");
    check(&LiveRedis::open(url).await.unwrap_err(), Step::Connect);
}

#[tokio::test]
async fn a_server_that_never_answers_fails_within_the_deadline() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://:{CANARY}@{}", silent.local_addr().unwrap());
    let started = Instant::now();
    let options = Options::default().with_deadline(Duration::from_millis(300));
    check(&LiveRedis::open_with(url, options).await.unwrap_err(), Step::Connect);
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_closed_client_refuses_every_call_and_may_be_closed_again() {
    let test = devstack::redis().unwrap().test();
    let redis = LiveRedis::open(test.url()).await.unwrap();
    redis.clone().close();
    redis.close();
    let scopes = vec![(Scope::new("key", "k").unwrap(), Limits { rpm: Some(1), tpm: None })];
    let refused = redis.admit_rates(scopes, 0, chrono::Utc::now()).await;
    assert_eq!(refused.unwrap_err(), LiveRedisError::Call(CallError::Closed));
}

#[tokio::test]
async fn a_call_after_the_server_died_is_an_error_within_the_deadline_and_works_again_after_it_is_back() {
    let mut server = RedisServer::builder().start().unwrap();
    let options = Options::default().with_deadline(Duration::from_millis(500));
    let redis = LiveRedis::open_with(server.url(), options).await.unwrap();
    let scopes = || vec![(Scope::new("key", "k").unwrap(), Limits { rpm: None, tpm: None })];
    assert!(redis.admit_rates(scopes(), 0, chrono::Utc::now()).await.unwrap().is_admitted());

    server.kill();
    let started = Instant::now();
    let error = redis.admit_rates(scopes(), 0, chrono::Utc::now()).await.unwrap_err();
    assert!(
        matches!(error, LiveRedisError::Call(CallError::Connection(_) | CallError::Timeout(_))),
        "{error}"
    );
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());

    server.start_again().unwrap();
    let give_up = Instant::now() + Duration::from_secs(20);
    while redis.admit_rates(scopes(), 0, chrono::Utc::now()).await.is_err() {
        assert!(Instant::now() < give_up, "the client does not find its way back");
        tokio::task::yield_now().await;
    }
}
