//! What a private Redis keeps over a restart, and what it refuses. Real servers, spoken to in their own protocol.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use devstack::{AppendFsync, DevstackError, RedisServer};

/// Sends inline commands on one connection and returns the raw reply of the last one, of `length` bytes.
fn ask(server: &RedisServer, commands: &[&str]) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut all = commands.join("\r\n");
    all.push_str("\r\nQUIT\r\n");
    stream.write_all(all.as_bytes()).unwrap();
    let mut replies = String::new();
    stream.read_to_string(&mut replies).unwrap();
    replies
}

#[test]
fn with_an_append_only_file_acknowledged_writes_survive_sigkill() {
    let mut server =
        RedisServer::builder().appendonly(true).appendfsync(AppendFsync::Always).start().unwrap();
    let (port, url) = (server.port(), server.url().to_owned());
    for round in 1..=3 {
        assert_eq!(ask(&server, &["INCR n"]), format!(":{round}\r\n+OK\r\n"));
        server.kill();
        assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
        server.start_again().unwrap();
    }
    assert_eq!((server.port(), server.url()), (port, url.as_str()));
    assert!(ask(&server, &["GET n"]).starts_with("$1\r\n3\r\n"));
}

#[test]
fn without_an_append_only_file_nothing_survives_even_a_clean_stop() {
    let mut server = RedisServer::builder().start().unwrap();
    assert!(ask(&server, &["SET a 1"]).starts_with("+OK"));
    server.stop().unwrap();
    server.start_again().unwrap();
    assert!(ask(&server, &["GET a"]).starts_with("$-1"));
}

#[test]
fn stopping_and_killing_twice_is_harmless_and_starting_twice_is_refused() {
    let mut server = RedisServer::builder().start().unwrap();
    let error = server.start_again().unwrap_err();
    assert!(matches!(error, DevstackError::WrongState { .. }), "{error}");
    server.kill();
    server.kill();
    server.stop().unwrap();
    server.start_again().unwrap();
    assert!(ask(&server, &["PING"]).starts_with("+PONG"));
}

#[test]
fn a_password_is_required_and_may_hold_any_character() {
    let password = "p w\"d\\ é/@:%\u{1f}";
    let mut server = RedisServer::builder().password(password).start().unwrap();
    assert!(ask(&server, &["GET a"]).starts_with("-NOAUTH"));
    server.kill();
    // Readiness is found out with the password.
    server.start_again().unwrap();
    assert!(!format!("{server:?}").contains("p w"));
}

#[test]
fn the_server_evicts_nothing_writes_no_snapshots_and_takes_further_options() {
    let server =
        RedisServer::builder().arg("maxmemory", "9mb").arg("hash-max-listpack-entries", "7").start().unwrap();
    for (name, value) in [
        ("maxmemory-policy", "noeviction"),
        ("save", ""),
        ("maxmemory", "9437184"),
        ("hash-max-listpack-entries", "7"),
    ] {
        let reply = ask(&server, &[&format!("CONFIG GET {name}")]);
        assert!(reply.contains(&format!("{name}\r\n${}\r\n{value}\r\n", value.len())), "{reply}");
    }
}

#[test]
fn a_dropped_server_has_closed_its_port_and_removed_its_folder() {
    let server = RedisServer::builder().appendonly(true).start().unwrap();
    let (port, folder) = (server.port(), server.folder().map(std::path::Path::to_path_buf));
    drop(server);
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    assert!(folder.is_none_or(|folder| !folder.exists()));
}

#[test]
fn many_threads_start_servers_of_their_own_at_the_same_time() {
    std::thread::scope(|scope| {
        for n in 0..8 {
            scope.spawn(move || {
                let server = RedisServer::builder().start().unwrap();
                ask(&server, &[&format!("SET mine {n}")]);
                assert!(ask(&server, &["GET mine"]).contains(&format!("\r\n{n}\r\n")));
                assert!(ask(&server, &["DBSIZE"]).starts_with(":1\r\n"));
            });
        }
    });
}
