//! A server that vanishes without closing its connections: calls find another way before the kernel notices.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use devstack::{Mode, Proxy};
use live_redis::{LiveRedis, Options};
use tokio::time::Instant;

#[tokio::test]
async fn connections_that_went_silent_are_replaced_within_a_few_deadlines() {
    let server = devstack::RedisServer::builder().start().unwrap();
    let proxy = Proxy::start(SocketAddr::from((Ipv4Addr::LOCALHOST, server.port()))).await.unwrap();
    let deadline = Duration::from_millis(300);
    let redis = LiveRedis::open_with(
        format!("redis://{}", proxy.address()),
        Options::default().with_deadline(deadline),
    )
    .await
    .unwrap();
    redis.set_string("key", "value", Duration::from_secs(60)).await.unwrap();
    // What is open stays dead, and what is dialled from now on passes.
    proxy.set(Mode::HalfOpen);
    redis.get_string("key").await.unwrap();
    proxy.set(Mode::Pass);
    let vanished = Instant::now();
    while redis.get_string("key").await.unwrap().as_deref() != Some("value") {
        assert!(vanished.elapsed() < deadline * 30, "no other way was found");
    }
    // Each of the two links finds its own.
    let before = redis.degradations();
    for _ in 0..20 {
        redis.get_string("key").await.unwrap();
    }
    assert!(redis.degradations() - before <= 4, "silent connections are still in use");
}
