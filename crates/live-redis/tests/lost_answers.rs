//! A connection that dies after a call ran: nobody repeats the call but the caller, and repeating tells what became of it.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod common;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use common::now;
use devstack::{Proxy, RedisServer};
use live_redis::{CallError, LiveRedis, LiveRedisError, Options};
use rate_plan::{Limits, Node, RatePlan, RateTree, Scope};
use spend_queue::QueueError;

const TTL: Duration = Duration::from_secs(60);

/// A server behind a proxy, and a client that knows the proxy only.
struct Behind {
    proxy: Proxy,
    redis: LiveRedis,
    /// Ends with the test.
    _server: RedisServer,
}

/// A cluster of one node, which tells everybody the address of the proxy as its own.
async fn cluster() -> Behind {
    let server = RedisServer::builder().arg("cluster-enabled", "yes").start().unwrap();
    let proxy = Proxy::start(SocketAddr::from((Ipv4Addr::LOCALHOST, server.port()))).await.unwrap();
    let mut raw = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let port = proxy.address().port();
    for (name, value) in
        [("cluster-announce-ip", "127.0.0.1".to_owned()), ("cluster-announce-port", port.to_string())]
    {
        let () = redis::cmd("CONFIG").arg("SET").arg(name).arg(value).query(&mut raw).unwrap();
    }
    let () = redis::cmd("CLUSTER").arg("ADDSLOTSRANGE").arg(0).arg(16_383).query(&mut raw).unwrap();
    while !redis::cmd("CLUSTER").arg("INFO").query::<String>(&mut raw).unwrap().contains("cluster_state:ok") {
        tokio::task::yield_now().await;
    }
    let redis = LiveRedis::open(format!("redis+cluster://127.0.0.1:{port}")).await.unwrap();
    Behind { proxy, redis, _server: server }
}

async fn single() -> Behind {
    let server = RedisServer::builder().start().unwrap();
    let proxy = Proxy::start(SocketAddr::from((Ipv4Addr::LOCALHOST, server.port()))).await.unwrap();
    let url = format!("redis://{}", proxy.address());
    let redis = LiveRedis::open_with(url, Options::default()).await.unwrap();
    Behind { proxy, redis, _server: server }
}

fn plan() -> RatePlan {
    let limits = Limits { rpm: Some(3), tpm: None };
    let root = Node { scope: Scope::new("organization", "acme").unwrap(), parent: None, limits };
    Arc::new(RateTree::new(vec![root]).unwrap()).plan(0).unwrap()
}

/// Calls until the connections are made anew.
async fn again<T>(mut call: impl AsyncFnMut() -> Result<T, LiveRedisError>) -> T {
    loop {
        match call().await {
            Ok(done) => return done,
            Err(LiveRedisError::Call(CallError::Connection(_))) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    }
}

fn is_in_doubt(error: &LiveRedisError) -> bool {
    matches!(error, LiveRedisError::Call(CallError::Connection(_))) && error.is_transient()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_admission_that_was_counted_is_not_sent_again_without_its_caller() {
    for behind in [cluster().await, single().await] {
        let (redis, plan) = (&behind.redis, plan());
        assert!(redis.admit_rate_plan(&plan, 1, now()).await.unwrap().is_admitted());
        behind.proxy.cut_at_the_reply_to(b"EVALSHA");
        let lost = redis.admit_rate_plan(&plan, 1, now()).await;
        assert!(lost.as_ref().is_err_and(is_in_doubt), "{lost:?}");
        let third = again(async || redis.admit_rate_plan(&plan, 1, now()).await).await;
        assert!(third.is_admitted(), "one was answered, the answer of one was lost, and this is the third");
        assert_eq!(redis.admit_rate_plan(&plan, 1, now()).await.unwrap().rejection().unwrap().used, 3);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_repeats_a_claim_whose_answer_was_lost_finds_it_is_its_own() {
    for behind in [cluster().await, single().await] {
        let redis = &behind.redis;
        assert!(redis.swap_affinity("other", None, "x", TTL).await.unwrap());
        behind.proxy.cut_at_the_reply_to(b"claim-1");
        let lost = redis.swap_affinity("key", None, "claim-1", TTL).await;
        assert!(lost.as_ref().is_err_and(is_in_doubt), "{lost:?}");
        assert!(again(async || redis.swap_affinity("key", None, "claim-1", TTL).await).await);
        assert!(!redis.swap_affinity("key", None, "claim-2", TTL).await.unwrap(), "another's");
        assert_eq!(redis.read_affinity("key").await.unwrap().as_deref(), Some("claim-1"));
    }
}
