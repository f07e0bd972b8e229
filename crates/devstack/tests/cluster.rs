//! A private Cluster: how it forms, fails over, moves slots and goes.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]

mod client;

use std::time::{Duration, Instant};

use client::{ask, gone, places};
use devstack::{AppendFsync, DevstackError, RedisCluster, RedisServer, TlsFiles};

/// A fail-over takes three to four seconds; a busy machine may need more.
const BOUND: Duration = Duration::from_secs(45);

fn server(cluster: &RedisCluster, index: usize) -> &RedisServer {
    cluster.servers().nth(index).unwrap()
}

#[test]
fn three_primaries_share_the_slots_and_redirect_to_each_other() {
    let cluster = RedisCluster::builder().primaries(3).start().unwrap();
    assert_eq!(cluster.urls().len(), 3);
    for (slot, owner) in [(0, 0), (5460, 0), (5461, 1), (10921, 1), (10922, 2), (16383, 2)] {
        assert_eq!(cluster.primary_of(slot).unwrap(), owner, "{slot}");
    }
    let slot = RedisCluster::key_slot(b"foo");
    assert_eq!(slot, 12182);
    assert_eq!(ask(server(&cluster, 2), &["SET foo 1"]), "+OK\r\n");
    let moved = format!("-MOVED {slot} 127.0.0.1:{}\r\n", server(&cluster, 2).port());
    assert_eq!(ask(server(&cluster, 0), &["GET foo"]), moved);
}

#[test]
fn a_killed_primary_is_replaced_by_its_replica_and_comes_back_as_one() {
    let node = RedisServer::builder().password("a b").appendonly(true).appendfsync(AppendFsync::Always);
    let mut cluster = RedisCluster::builder().replicas(1).nodes(node).start().unwrap();
    let slot = RedisCluster::key_slot(b"foo");
    let old = cluster.primary_of(slot).unwrap();
    let auth = "AUTH \"a b\"";
    let written = ask(server(&cluster, old), &[auth, "SET foo kept", "WAIT 1 5000"]);
    assert_eq!(written, "+OK\r\n+OK\r\n:1\r\n");
    assert_eq!(cluster.kill_primary_of(slot).unwrap(), old);
    let start = Instant::now();
    cluster.wait_ok(BOUND).unwrap();
    println!("fail-over after {:?}", start.elapsed());
    let new = cluster.primary_of(slot).unwrap();
    assert_eq!(new, old + 3);
    assert!(ask(server(&cluster, new), &[auth, "GET foo"]).ends_with("$4\r\nkept\r\n"));
    cluster.start_again(old).unwrap();
    cluster.wait_ok(BOUND).unwrap();
    assert_eq!(cluster.primary_of(slot).unwrap(), new);
    let replica = ask(server(&cluster, old), &[auth, "READONLY", "GET foo"]);
    assert!(replica.ends_with("$4\r\nkept\r\n"), "{replica}");
    assert!(!format!("{cluster:?}").contains("a b"));
}

#[test]
fn a_cluster_that_lost_a_primary_without_a_replica_says_so_and_heals_when_it_returns() {
    let mut cluster = RedisCluster::builder().start().unwrap();
    let lost = cluster.kill_primary_of(0).unwrap();
    let error = cluster.wait_ok(Duration::from_millis(300)).unwrap_err();
    assert!(matches!(error, DevstackError::NotSettled { .. }) && error.is_transient(), "{error}");
    assert!(matches!(cluster.primary_of(0), Err(DevstackError::Redis { .. })));
    // Nobody signals that the others have noticed.
    let deadline = Instant::now() + BOUND;
    while !ask(server(&cluster, 2), &["GET foo"]).starts_with("-CLUSTERDOWN") {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(20));
    }
    cluster.start_again(lost).unwrap();
    cluster.wait_ok(BOUND).unwrap();
    assert_eq!(ask(server(&cluster, 2), &["GET foo"]), "$-1\r\n");
}

#[test]
fn a_slot_moves_with_its_keys_and_half_way_the_old_node_asks() {
    let node = RedisServer::builder().password("secret");
    let cluster = RedisCluster::builder().nodes(node).start().unwrap();
    let (slot, auth) = (RedisCluster::key_slot(b"foo"), "AUTH secret");
    let from = cluster.primary_of(slot).unwrap();
    let to = (from + 1) % 3;
    for n in 0..250 {
        ask(server(&cluster, from), &[auth, &format!("SET {{foo}}{n} {n}")]);
    }
    let slot_move = cluster.begin_slot_move(slot, to).unwrap();
    assert_eq!((slot_move.slot(), slot_move.from(), slot_move.to()), (slot, from, to));
    assert_eq!(cluster.migrate_keys(&slot_move, 30).unwrap(), 30);
    let (ours, theirs) = (server(&cluster, from), server(&cluster, to));
    let count = format!("CLUSTER COUNTKEYSINSLOT {slot}");
    assert_eq!(ask(ours, &[auth, &count]), "+OK\r\n:220\r\n");
    assert_eq!(ask(theirs, &[auth, &count]), "+OK\r\n:30\r\n");
    let asked = format!("+OK\r\n-ASK {slot} 127.0.0.1:{}\r\n", theirs.port());
    assert_eq!(ask(ours, &[auth, "GET {foo}new"]), asked);
    let moved = format!("-MOVED {slot} 127.0.0.1:{}\r\n", ours.port());
    assert!(ask(theirs, &[auth, "GET {foo}new"]).ends_with(&moved));
    assert!(ask(theirs, &[auth, "ASKING", "SET {foo}new 1"]).ends_with("+OK\r\n+OK\r\n"));
    cluster.finish_slot_move(&slot_move).unwrap();
    assert_eq!(cluster.primary_of(slot).unwrap(), to);
    assert_eq!(ask(theirs, &[auth, &count]), "+OK\r\n:251\r\n");
    // There and back again, in one step.
    cluster.move_slot(slot, from).unwrap();
    assert_eq!(ask(ours, &[auth, &count]), "+OK\r\n:251\r\n");
    // Nobody moves a slot to itself.
    let error = cluster.move_slot(slot, from).unwrap_err();
    assert!(matches!(error, DevstackError::Redis { .. }) && !error.to_string().contains("secret"), "{error}");
}

#[test]
fn under_tls_the_nodes_use_it_among_themselves_too() {
    let folder = tempfile::TempDir::new().unwrap();
    let node = RedisServer::builder().tls(TlsFiles::generate(folder.path()).unwrap());
    let mut cluster = RedisCluster::builder().replicas(1).nodes(node).start().unwrap();
    assert!(cluster.urls().iter().all(|url| url.starts_with("rediss://127.0.0.1:")));
    cluster.move_slot(0, 1).unwrap();
    cluster.kill_primary_of(0).unwrap();
    cluster.wait_ok(BOUND).unwrap();
    assert_eq!(cluster.primary_of(0).unwrap(), 4);
}

#[test]
fn nothing_is_left_of_a_dropped_cluster() {
    let mut cluster = RedisCluster::builder().primaries(1).replicas(1).start().unwrap();
    let places = places(cluster.servers());
    cluster.kill(1).unwrap();
    cluster.kill(1).unwrap();
    drop(cluster);
    assert!(gone(&places));
}

#[test]
fn numbers_out_of_range_are_refused() {
    let refused = |error| assert!(matches!(error, DevstackError::OutOfRange { .. }), "{error}");
    refused(RedisCluster::builder().primaries(0).start().unwrap_err());
    refused(RedisCluster::builder().primaries(17).start().unwrap_err());
    refused(RedisCluster::builder().replicas(4).start().unwrap_err());
    let mut cluster = RedisCluster::builder().primaries(1).start().unwrap();
    refused(cluster.primary_of(16_384).unwrap_err());
    refused(cluster.kill(1).unwrap_err());
    refused(cluster.start_again(1).unwrap_err());
    refused(cluster.move_slot(0, 1).unwrap_err());
    let error = cluster.start_again(0).unwrap_err();
    assert!(matches!(error, DevstackError::WrongState { .. }), "{error}");
}
