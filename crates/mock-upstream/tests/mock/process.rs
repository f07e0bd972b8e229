//! The binary: its first line, its journal's file, its end.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::client::{ask, chat};

#[tokio::test]
async fn it_says_where_it_listens_and_ends_when_it_is_told_to() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    for signal in ["TERM", "INT"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mock-upstream"));
        command.args(["--latency-ms", "0", "--journal"]).arg(&path).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let first: Value = serde_json::from_str(&line).unwrap();
        assert!(
            ask(first["listening"].as_str().unwrap(), "/v1/chat/completions", &chat(""))
                .await
                .status
                .is_success()
        );
        let sent = Command::new("sh")
            .args(["-c", "kill -s \"$0\" \"$1\"", signal, &child.id().to_string()])
            .status();
        assert!(sent.unwrap().success());
        assert!(child.wait().unwrap().success(), "SIG{signal}");
    }
    assert_eq!(std::fs::read_to_string(path).unwrap().lines().count(), 4, "both runs append");
}

#[test]
fn what_it_cannot_have_is_one_line() {
    for (words, line) in [
        (&["--journal", "/no/such/folder/journal"][..], "cannot append to journal /no/such/folder/journal"),
        (&["--api-key-env", "NO_SUCH_VARIABLE"], "--api-key-env NO_SUCH_VARIABLE"),
        (&["--listen", "192.0.2.1:1"], "cannot listen on 192.0.2.1:1"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_mock-upstream")).args(words).output().unwrap();
        assert!(!output.status.success());
        assert!(String::from_utf8(output.stderr).unwrap().contains(line), "{words:?}");
    }
}
