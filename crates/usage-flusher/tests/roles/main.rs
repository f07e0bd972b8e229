//! Every command of the program, as the users and roles of `docs/security.md` and on servers that refuse them everything else; and
//! on which servers the service does not start.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod commands;
mod deployed;
mod metrics;
mod start;
#[path = "../support/mod.rs"]
mod support;

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use devstack::GuardedServers;
use serde_json::Value;

const PAGE: &str = include_str!("../../../../docs/security.md");
const OWNER: &str = "tallyweir_owner";

/// Servers with the page's users, and the ledger's tables.
fn guarded() -> GuardedServers {
    let servers = GuardedServers::start(PAGE, OWNER).unwrap();
    let migrated = as_roles(&servers, "", "owner").args(["migrate", "--json"]).output().unwrap();
    assert!(migrated.status.success(), "{migrated:?}");
    let report: Value = serde_json::from_slice(&migrated.stdout).unwrap_or_else(|_| panic!("{migrated:?}"));
    assert_eq!(report["applied"].as_array().unwrap().last().unwrap(), &report["version"], "{report}");
    servers.grant(OWNER).unwrap();
    servers
}

/// The binary as a user of Redis and a role of PostgreSQL; an empty name leaves that server out.
fn as_roles(servers: &GuardedServers, redis: &str, postgres: &str) -> Command {
    let mut command = support::binary();
    command.env("RUST_LOG", "info").stdout(Stdio::piped()).stderr(Stdio::piped());
    if !redis.is_empty() {
        command.env("TALLYWEIR_REDIS_URL", servers.redis_url(redis));
    }
    if !postgres.is_empty() {
        command.env("TALLYWEIR_DATABASE_URL", servers.database_url(&format!("tallyweir_{postgres}")));
    }
    command
}

/// The one line that a program that failed said last.
fn complaint(output: &Output) -> String {
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    text.lines().last().unwrap_or_default().to_owned()
}

/// A running flusher and where it listens.
struct Running {
    child: Child,
    stdout: BufReader<std::process::ChildStdout>,
    address: String,
}

impl Running {
    fn start(mut command: Command) -> Self {
        let mut child = command.args(["run", "--json", "--listen", "127.0.0.1:0"]).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let mut errors = child.stderr.take().unwrap();
        let started: Value = serde_json::from_str(&line).unwrap_or_else(|_| {
            let mut text = String::new();
            let _ = errors.read_to_string(&mut text);
            panic!("{line}{text}")
        });
        assert_eq!(started["event"], "started", "{started}");
        assert_eq!(started["version"], env!("CARGO_PKG_VERSION"));
        let address = started["address"].as_str().unwrap().to_owned();
        // The pipe must not fill up.
        std::thread::spawn(move || std::io::copy(&mut errors, &mut std::io::sink()));
        Self { child, stdout, address }
    }

    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: flusher\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    /// Tells it to stop, and returns what it said of itself at the end.
    fn stop(mut self) -> Value {
        support::terminate(&self.child);
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        assert!(self.child.wait().unwrap().success());
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for what another process brings about.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let give_up = Instant::now() + Duration::from_secs(30);
    while !done() {
        assert!(Instant::now() < give_up, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(20));
    }
}
