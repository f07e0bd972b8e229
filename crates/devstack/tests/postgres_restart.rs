//! What a private PostgreSQL keeps over a restart, and its databases.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]

use std::net::TcpStream;

use devstack::{DevstackError, Durability, PostgresServer};
use postgres::{Client, NoTls};

fn connect(url: &str) -> Client {
    Client::connect(url, NoTls).unwrap()
}

fn setting(client: &mut Client, name: &str) -> String {
    client.query_one(&format!("SHOW {name}"), &[]).unwrap().get(0)
}

fn count(url: &str) -> i64 {
    connect(url).query_one("SELECT count(*) FROM t", &[]).unwrap().get(0)
}

#[test]
fn committed_rows_survive_every_kind_of_end() {
    let mut server = PostgresServer::builder().durability(Durability::Fast).start().unwrap();
    let (port, url) = (server.port(), server.url().to_owned());
    connect(&url).batch_execute("CREATE TABLE t (n int)").unwrap();
    let ends: [fn(&mut PostgresServer); 3] =
        [|server| server.kill(), |server| server.stop_immediate().unwrap(), |server| server.stop().unwrap()];
    for (round, end) in (1..).zip(ends) {
        // A session that is open when the server dies must not keep it from starting again.
        let mut open = connect(&url);
        open.batch_execute("INSERT INTO t VALUES (1)").unwrap();
        end(&mut server);
        assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
        server.start_again().unwrap();
        assert_eq!(server.url(), url);
        assert_eq!(count(&url), round);
    }
    assert!(matches!(server.start_again(), Err(DevstackError::WrongState { .. })));
}

#[test]
fn a_durable_server_keeps_postgresqls_own_guarantees_and_a_strangers_password_is_refused() {
    let server = PostgresServer::builder().setting("work_mem", "5MB").start().unwrap();
    let mut client = connect(server.url());
    for (name, value) in [
        ("fsync", "on"),
        ("full_page_writes", "on"),
        ("synchronous_commit", "on"),
        ("server_encoding", "UTF8"),
        ("lc_collate", "C"),
        ("work_mem", "5MB"),
    ] {
        // `lc_collate` is no setting any more in newer versions.
        if name == "lc_collate" {
            let sql = "SELECT datcollate FROM pg_database WHERE datname = 'postgres'";
            let collate: String = client.query_one(sql, &[]).unwrap().get(0);
            assert_eq!(collate, value);
        } else {
            assert_eq!(setting(&mut client, name), value, "{name}");
        }
    }
    let wrong = format!("postgres://postgres:wrong@127.0.0.1:{}/postgres", server.port());
    assert!(Client::connect(&wrong, NoTls).is_err());
    let password = server.url().split([':', '@']).nth(2).unwrap();
    assert!(!format!("{server:?}").contains(password));
}

#[test]
fn a_dropped_server_has_closed_its_port_and_removed_its_folder() {
    let server = PostgresServer::builder().durability(Durability::Fast).start().unwrap();
    let _session = connect(server.url());
    let (port, folder) = (server.port(), server.folder().map(std::path::Path::to_path_buf));
    drop(server);
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    assert!(folder.is_none_or(|folder| !folder.exists()));
}
