//! Private servers under Sentinels: how they form a group, fail over and go.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]

mod client;

use std::time::{Duration, Instant};

use client::{ask, ask_sentinel, gone, places};
use devstack::{DevstackError, RedisSentinel, RedisServer, TlsFiles};

/// A fail-over takes one to three seconds, and twice the fail-over timeout more when the Sentinels' votes were
/// split; a busy machine may need more.
const BOUND: Duration = Duration::from_secs(60);

#[test]
fn a_killed_primary_is_replaced_and_comes_back_as_a_replica() {
    let server = RedisServer::builder().password("a b").appendonly(true);
    let mut group = RedisSentinel::builder().replicas(1).sentinels(3).servers(server).start().unwrap();
    assert_eq!((group.servers().len(), group.sentinel_urls().len()), (2, 3));
    assert_eq!(group.primary_port().unwrap(), group.servers()[0].port());
    let auth = "AUTH \"a b\"";
    let written = ask(&group.servers()[0], &[auth, "SET foo kept", "WAIT 1 5000"]);
    assert_eq!(written, "+OK\r\n+OK\r\n:1\r\n");
    assert_eq!(group.kill_primary().unwrap(), 0);
    let start = Instant::now();
    group.wait_ok(BOUND).unwrap();
    println!("fail-over after {:?}", start.elapsed());
    let port = group.servers()[1].port();
    assert_eq!(group.primary_port().unwrap(), port);
    for sentinel in group.sentinels() {
        let reply =
            ask_sentinel(sentinel, &format!("SENTINEL GET-MASTER-ADDR-BY-NAME {}", group.master_name()));
        assert!(reply.contains(&format!("\r\n{port}\r\n")), "{reply}");
    }
    assert!(ask(&group.servers()[1], &[auth, "GET foo"]).ends_with("$4\r\nkept\r\n"));
    group.start_again(0).unwrap();
    group.wait_ok(BOUND).unwrap();
    assert!(ask(&group.servers()[0], &[auth, "SET foo 2"]).contains("-READONLY"));
    // Its configuration says so, too.
    group.kill(0).unwrap();
    group.start_again(0).unwrap();
    assert!(ask(&group.servers()[0], &[auth, "ROLE"]).contains("slave"));
    assert!(!format!("{group:?}").contains("a b"));
}

#[test]
fn two_of_three_sentinels_are_enough_and_the_third_learns_what_it_missed() {
    let mut group = RedisSentinel::builder().sentinel_password("s p").start().unwrap();
    assert!(group.sentinel_urls().iter().all(|url| url.contains("s%20p")));
    assert!(ask_sentinel(&group.sentinels()[0], "SENTINEL MASTERS").starts_with("-NOAUTH"));
    group.kill_sentinel(0).unwrap();
    group.kill_primary().unwrap();
    group.wait_ok(BOUND).unwrap();
    group.start_sentinel_again(0).unwrap();
    group.wait_ok(BOUND).unwrap();
    assert_eq!(group.primary_port().unwrap(), group.servers()[1].port());
}

#[test]
fn without_a_replica_the_primary_stays_lost() {
    let mut group = RedisSentinel::builder().replicas(0).sentinels(1).start().unwrap();
    group.kill_primary().unwrap();
    let error = group.wait_ok(Duration::from_millis(200)).unwrap_err();
    assert!(error.is_transient() && error.to_string().contains("the primary is down"), "{error}");
    group.start_again(0).unwrap();
    group.wait_ok(BOUND).unwrap();
}

#[test]
fn under_tls_the_sentinels_use_it_too() {
    let folder = tempfile::TempDir::new().unwrap();
    let server = RedisServer::builder().tls(TlsFiles::generate(folder.path()).unwrap());
    let mut group = RedisSentinel::builder().servers(server).start().unwrap();
    assert!(group.sentinel_urls().iter().all(|url| url.starts_with("rediss://")));
    group.kill_primary().unwrap();
    group.wait_ok(BOUND).unwrap();
}

#[test]
fn nothing_is_left_of_a_dropped_group() {
    let group = RedisSentinel::builder().start().unwrap();
    let places = places(group.servers().iter().chain(group.sentinels()));
    drop(group);
    assert_eq!(places.len(), 5);
    assert!(gone(&places));
}

#[test]
fn numbers_out_of_range_are_refused() {
    let refused = |error| assert!(matches!(error, DevstackError::OutOfRange { .. }), "{error}");
    refused(RedisSentinel::builder().replicas(6).start().unwrap_err());
    refused(RedisSentinel::builder().sentinels(0).start().unwrap_err());
    refused(RedisSentinel::builder().sentinels(8).start().unwrap_err());
    let mut group = RedisSentinel::builder().replicas(0).sentinels(1).start().unwrap();
    refused(group.kill(1).unwrap_err());
    refused(group.start_again(1).unwrap_err());
    refused(group.kill_sentinel(1).unwrap_err());
    refused(group.start_sentinel_again(1).unwrap_err());
}
