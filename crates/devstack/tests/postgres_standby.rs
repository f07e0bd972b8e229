//! A standby follows its primary, refuses writes, and becomes a primary.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]

use devstack::{Durability, PostgresServer};
use postgres::{Client, NoTls};

fn connect(url: &str) -> Client {
    Client::connect(url, NoTls).unwrap()
}

#[test]
fn a_standby_follows_refuses_writes_and_takes_over() {
    let mut primary = PostgresServer::builder().durability(Durability::Fast).start().unwrap();
    let mut writer = connect(primary.url());
    writer.batch_execute("CREATE TABLE t (n int); INSERT INTO t VALUES (1)").unwrap();
    let standby = primary.standby().unwrap();
    writer.batch_execute("INSERT INTO t VALUES (2)").unwrap();
    let mut reader = connect(standby.url());
    let mut rows = || reader.query_one("SELECT count(*) FROM t", &[]).unwrap().get::<_, i64>(0);
    while rows() < 2 {
        std::thread::yield_now();
    }
    let refused = reader.batch_execute("INSERT INTO t VALUES (3)").unwrap_err();
    assert_eq!(refused.code().unwrap().code(), "25006");
    primary.kill();
    standby.promote().unwrap();
    reader.batch_execute("INSERT INTO t VALUES (3)").unwrap();
}

#[test]
fn a_primary_becomes_a_standby_and_a_primary_again_with_its_data() {
    let mut server = PostgresServer::builder().durability(Durability::Fast).start().unwrap();
    let url = server.url().to_owned();
    connect(&url).batch_execute("CREATE TABLE t (n int)").unwrap();
    server.demote().unwrap();
    assert_eq!(server.url(), url);
    assert!(connect(&url).batch_execute("INSERT INTO t VALUES (1)").is_err());
    server.promote().unwrap();
    connect(&url).batch_execute("INSERT INTO t VALUES (1)").unwrap();
}
