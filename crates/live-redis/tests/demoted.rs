//! A server that has become a replica while clients are connected to it: what it still holds may be old, so nothing strict is
//! read from it.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod common;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use common::{event, limit, now, shard, team};
use devstack::{Proxy, RedisServer};
use live_redis::{CallError, LiveRedis, LiveRedisError, Options, Watermarks};
use spend_queue::{PendingQuery, PendingSpend, QueueError, SpendQueue, Usd};

const FRESH: Watermarks = Watermarks { entries: 3, age: Duration::from_secs(10), freshness: Duration::ZERO };

fn address(server: &RedisServer) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, server.port()))
}

fn connect(server: &RedisServer) -> redis::Connection {
    redis::Client::open(server.url()).unwrap().get_connection().unwrap()
}

fn demote(server: &RedisServer, primary: u16) {
    let mut raw = connect(server);
    let () = redis::cmd("REPLICAOF").arg("127.0.0.1").arg(primary).query(&mut raw).unwrap();
}

/// Waits until a server has all that its primary has.
fn follow(server: &RedisServer) {
    let mut raw = connect(server);
    while !redis::cmd("INFO").arg("replication").query::<String>(&mut raw).unwrap().contains("link_status:up")
    {
        std::thread::yield_now();
    }
}

fn is_refused(error: &LiveRedisError) -> bool {
    let text = error.to_string();
    matches!(error, LiveRedisError::Call(CallError::Unavailable(_)))
        && error.is_transient()
        && text.contains("READONLY")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_strict_is_read_from_a_replica() {
    let (server, primary) =
        (RedisServer::builder().start().unwrap(), RedisServer::builder().start().unwrap());
    let options = Options::default().with_deadline(Duration::from_millis(200));
    let redis = LiveRedis::open_with(server.url(), options.clone()).await.unwrap();
    let other = LiveRedis::open_with(primary.url(), options).await.unwrap();
    for redis in [&redis, &other] {
        redis.enqueue(&event("a", 5)).await.unwrap();
        assert_eq!(redis.pending(&team()).await, Ok(Usd::from_picos(5)));
    }
    demote(&server, primary.port());
    follow(&server);
    // What is spent from now on, the replica may not know yet.
    let queries = [PendingQuery::Scope(team()), PendingQuery::Key("k".into())];
    let refusals = [
        ("pending", redis.pending(&team()).await.map(drop)),
        ("pending_since", redis.pending_since("o", now()).await.map(drop)),
        ("pending_key", redis.pending_key("k").await.map(drop)),
        ("pending_all", redis.pending_all(&queries).await.map(drop)),
        ("peek", redis.peek(shard(), limit(1)).await.map(drop)),
        ("backlog", redis.backlog(shard()).await.map(drop)),
        ("pressure", redis.pressure(&FRESH, now()).await.map(drop)),
        ("depth", redis.depth(shard()).await.map(drop)),
        ("queue_status", redis.queue_status(shard()).await.map(drop)),
        ("queue_glance", redis.queue_glance(shard()).await.map(drop)),
    ];
    for (name, answer) in refusals {
        assert!(answer.as_ref().is_err_and(is_refused), "{name}: {answer:?}");
    }
    let () = redis::cmd("REPLICAOF").arg("NO").arg("ONE").query(&mut connect(&server)).unwrap();
    assert_eq!(redis.pending(&team()).await, Ok(Usd::from_picos(5)));
    assert_eq!(redis.peek(shard(), limit(1)).await.unwrap().entries.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_leads_to_the_new_primary_is_followed_by_every_connection() {
    let (old, new) = (RedisServer::builder().start().unwrap(), RedisServer::builder().start().unwrap());
    let proxy = Proxy::start(address(&old)).await.unwrap();
    let redis = LiveRedis::open(format!("redis://{}", proxy.address())).await.unwrap();
    redis.enqueue(&event("a", 5)).await.unwrap();
    // Connections of both paths stay open to the old primary.
    assert_eq!(redis.peek(shard(), limit(1)).await.unwrap().depth, 1);
    let direct = LiveRedis::open(new.url()).await.unwrap();
    for id in ["a", "b"] {
        direct.enqueue(&event(id, 5)).await.unwrap();
    }
    // It cannot reach the new primary, so it keeps what it has.
    demote(&old, 1);
    proxy.lead_to(address(&new));
    assert_eq!(redis.pending(&team()).await, Ok(Usd::from_picos(10)));
    assert_eq!(redis.peek(shard(), limit(10)).await.unwrap().depth, 2);
}
