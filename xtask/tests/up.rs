//! The stack to play with: the lines that it prints work, and nothing of it is left.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// `up --json`, and what it printed.
struct Up {
    process: Child,
    card: Value,
}

impl Up {
    fn start() -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("TALLYWEIR_")) {
            command.env_remove(name);
        }
        let mut process =
            command.args(["up", "--json", "--gateway-port", "0"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let card = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
        Self { process, card }
    }

    /// Runs a line as it would be pasted.
    fn paste(&self, name: &str) -> String {
        let line = self.card[name].as_str().unwrap();
        let Output { status, stdout, stderr } = Command::new("sh").args(["-c", line]).output().unwrap();
        let text = String::from_utf8(stdout).unwrap();
        assert!(status.success(), "{line}: {text}{}", String::from_utf8_lossy(&stderr));
        text
    }

    fn stop(mut self, signal: &str) -> Value {
        send(signal, self.process.id());
        assert!(self.process.wait().unwrap().success(), "SIG{signal}");
        self.card
    }
}

fn send(signal: &str, process: u32) -> bool {
    let mut kill = Command::new("sh");
    kill.args(["-c", "kill -s \"$0\" \"$1\"", signal, &process.to_string()]).stderr(Stdio::null());
    kill.status().unwrap().success()
}

#[test]
fn the_pasted_lines_work_and_ctrl_c_leaves_nothing_behind() {
    let up = Up::start();
    let answer: Value = serde_json::from_str(&up.paste("curl")).unwrap();
    let usage = &answer["usage"];
    assert_eq!((&usage["prompt_tokens"], &usage["completion_tokens"]), (&8.into(), &32.into()), "{answer}");

    // 8 tokens at 0.15 and 32 at 0.60 US dollars a million.
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let bills = up.paste("psql");
        if bills.contains("0.000020400000") {
            assert!(bills.contains("app") && bills.contains("small") && bills.contains("success"), "{bills}");
            break;
        }
        assert!(Instant::now() < deadline, "{bills}");
        std::thread::sleep(Duration::from_millis(50));
    }

    let answers = up.paste("refusal");
    assert!(
        answers.contains("429 Too Many Requests") && answers.contains("rate_limit_exceeded"),
        "{answers}"
    );
    assert!(answers.to_lowercase().contains("\nretry-after: "), "{answers}");
    assert!(up.paste("no_budget").contains("\"type\":\"insufficient_quota\""));
    assert!(up.paste("redis_cli").contains("tallyweir:"));
    for name in ["gateway", "usage-flusher"] {
        let url = up.card["metrics"][name].as_str().unwrap();
        let metrics = Command::new("curl").args(["-sSf", url]).output().unwrap();
        assert!(String::from_utf8(metrics.stdout).unwrap().contains("tallyweir_"), "{url}");
    }
    gone(&up.stop("INT"));
}

#[test]
fn a_stack_that_is_told_to_end_or_killed_leaves_nothing_behind() {
    gone(&Up::start().stop("TERM"));
    let mut killed = Up::start();
    killed.process.kill().unwrap();
    killed.process.wait().unwrap();
    gone(&killed.card);
}

/// Waits until no program and no server is left. Those of a killed parent are ended by their guards, a moment later.
fn gone(card: &Value) {
    let deadline = Instant::now() + Duration::from_secs(20);
    let pids = card["pids"].as_object().unwrap();
    assert_eq!(pids.len(), 4, "{pids:?}");
    let answers = |name: &str| {
        let url = card[name].as_str().unwrap();
        let address = url.rsplit('@').next().unwrap().rsplit("//").next().unwrap();
        TcpStream::connect(address.split('/').next().unwrap()).is_ok()
    };
    while pids.values().any(runs) || answers("redis_url") || answers("database_url") {
        assert!(Instant::now() < deadline, "still there: {card}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A zombie has ended: in a container, whoever inherits orphans may never reap them.
fn runs(pid: &Value) -> bool {
    let pid = u32::try_from(pid.as_u64().unwrap()).unwrap();
    let zombie = std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z')));
    send("0", pid) && !zombie
}

#[test]
fn a_port_that_is_taken_is_named_and_nothing_is_left() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    let output = command.args(["up", "--json", "--gateway-port", &port]).output().unwrap();
    assert!(!output.status.success());
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains(&format!("127.0.0.1:{port}")), "{errors}");
}
