//! A client of one's own, so that the tests do not believe the crate's.

#![allow(dead_code, reason = "no test uses all of it")]
#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use devstack::RedisServer;

/// Sends inline commands on one connection and returns the raw replies, without that of the closing `QUIT`.
pub(crate) fn ask(server: &RedisServer, commands: &[&str]) -> String {
    let stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    ask_over(stream, commands)
}

/// The same to a Sentinel, which knows no `QUIT`.
pub(crate) fn ask_sentinel(sentinel: &RedisServer, command: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", sentinel.port())).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    stream.write_all(format!("{command}\r\n").as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}

/// As [`ask`], on a connection that is open already.
pub(crate) fn ask_over(mut stream: impl Read + Write, commands: &[&str]) -> String {
    let mut all = commands.join("\r\n");
    all.push_str("\r\nQUIT\r\n");
    stream.write_all(all.as_bytes()).unwrap();
    let mut replies = String::new();
    stream.read_to_string(&mut replies).unwrap();
    replies.strip_suffix("+OK\r\n").unwrap_or(&replies).to_owned()
}

/// Where servers are, to see later that nothing is left of them.
pub(crate) fn places<'a>(servers: impl IntoIterator<Item = &'a RedisServer>) -> Vec<(u16, PathBuf)> {
    servers.into_iter().map(|server| (server.port(), server.folder().unwrap().to_path_buf())).collect()
}

/// Whether nothing is left of them.
pub(crate) fn gone(places: &[(u16, PathBuf)]) -> bool {
    places.iter().all(|(port, folder)| TcpStream::connect(("127.0.0.1", *port)).is_err() && !folder.exists())
}
