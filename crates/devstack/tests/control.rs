//! The program `devstack --control`: what another program can do with its servers.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]

mod client;

use std::io::{BufRead, BufReader, Lines, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use postgres::{Client, NoTls};
use url::Url;

struct Controller {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Controller {
    fn start(services: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_devstack"));
        command.arg("--control").args(services).stdin(Stdio::piped()).stdout(Stdio::piped());
        // A server that is given is not ours to kill.
        command
            .env("TALLYWEIR_REDIS_URL", "redis://127.0.0.1:1")
            .env("TALLYWEIR_DATABASE_URL", "postgres://h/d");
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, input, output: BufReader::new(output).lines() }
    }

    /// The URL in the line that announces a server.
    fn announced(&mut self, name: &str) -> String {
        let line = self.output.next().unwrap().unwrap();
        let [announced, url, _] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line:?}") };
        assert_eq!(announced, name);
        url.to_owned()
    }

    fn tell(&mut self, command: &str) -> String {
        writeln!(self.input, "{command}").unwrap();
        self.output.next().unwrap().unwrap()
    }
}

fn answers(url: &str) -> bool {
    TcpStream::connect(("127.0.0.1", port(url))).is_ok()
}

fn port(url: &str) -> u16 {
    Url::parse(url).unwrap().port().unwrap()
}

fn redis(url: &str, command: &str) -> String {
    client::ask_over(TcpStream::connect(("127.0.0.1", port(url))).unwrap(), &[command])
}

#[test]
fn a_server_that_is_killed_or_stopped_starts_again_with_the_same_url_and_data() {
    let mut controller = Controller::start(&["redis:always", "postgres"]);
    let redis_url = controller.announced("redis");
    let postgres_url = controller.announced("postgres");
    let mut sql = Client::connect(&postgres_url, NoTls).unwrap();
    sql.batch_execute("CREATE TABLE t (n int)").unwrap();
    for (round, verb) in (1..).zip(["kill", "stop"]) {
        assert_eq!(redis(&redis_url, "INCR n"), format!(":{round}\r\n"));
        let mut sql = Client::connect(&postgres_url, NoTls).unwrap();
        sql.batch_execute("INSERT INTO t VALUES (1)").unwrap();
        for (name, url) in [("redis", &redis_url), ("postgres", &postgres_url)] {
            assert_eq!(controller.tell(&format!("{verb} {name}")), "ok");
            assert!(!answers(url), "{verb} {name}");
            assert_eq!(controller.tell(&format!("start {name}")), "ok");
        }
        let mut sql = Client::connect(&postgres_url, NoTls).unwrap();
        let count: i64 = sql.query_one("SELECT count(*) FROM t", &[]).unwrap().get(0);
        assert_eq!(count, round);
    }
    assert!(controller.tell("start redis").starts_with("error: "));
    assert!(controller.tell("pause redis").contains("kill, stop, start and keep"));
    drop(controller.input);
    assert!(controller.child.wait().unwrap().success());
    assert!(!answers(&redis_url) && !answers(&postgres_url));
}

#[test]
fn a_server_that_is_kept_outlives_the_program_and_its_commands_end_it() {
    let mut controller = Controller::start(&["redis"]);
    let url = controller.announced("redis");
    let kept = controller.tell("keep redis");
    drop(controller.input);
    assert!(controller.child.wait().unwrap().success());
    assert!(answers(&url));
    let commands = kept.strip_prefix("ok ").unwrap();
    assert!(Command::new("sh").args(["-c", commands]).status().unwrap().success(), "{commands}");
    assert!(!answers(&url));
}

#[test]
fn groups_and_unknown_names_are_refused_with_the_usage() {
    for service in ["cluster", "redis:sometimes"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_devstack"));
        let output = command.args(["--control", service]).stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8(output.stderr).unwrap().contains("usage: devstack"));
    }
}
