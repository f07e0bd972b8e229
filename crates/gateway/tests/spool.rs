//! The command `spool`, on the file of a gateway that is stopped.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::path::Path;
use std::process::{Command, Output, Stdio};

use chrono::Utc;
use devstack::RedisServer;
use live_redis::LiveRedis;
use serde_json::Value;
use spend_queue::{EncodedEvent, ScopeRef, SpendEvent, SpendQueue};
use spend_spool::{Spool, SpoolOptions};

fn event(id: &str, cost: &str) -> EncodedEvent {
    let mut event = SpendEvent::new(id, "m", vec![ScopeRef::new("team", "t").unwrap()]);
    event.cost = Some(cost.parse().unwrap());
    event.encode(Utc::now()).unwrap()
}

fn spool(words: &[&str], file: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tallyweir-gateway"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("TALLYWEIR_")) {
        command.env_remove(name);
    }
    command.arg("spool").args(words).arg("--spool").arg(file);
    command.env("TALLYWEIR_LOG_FORMAT", "json").stdin(Stdio::null()).output().unwrap()
}

fn stdout(output: &Output) -> &str {
    assert!(output.status.success(), "{output:?}");
    std::str::from_utf8(&output.stdout).unwrap()
}

/// What a failed command said, in one line.
fn complaint(output: &Output) -> String {
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{output:?}");
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

/// The request ids that the spool keeps as conflicts.
fn kept(file: &Path) -> Vec<String> {
    let listed: Value = serde_json::from_str(stdout(&spool(&["list", "--json"], file))).unwrap();
    let conflicts = listed["conflicts"].as_array().unwrap();
    conflicts.iter().map(|event| event["request_id"].as_str().unwrap().to_owned()).collect()
}

/// A spool with these conflicts: Redis was away when they came, and had others under their ids when it was back.
async fn conflicting(file: &Path, events: &[EncodedEvent]) -> Spool {
    let mut server = RedisServer::builder().start().unwrap();
    let redis = LiveRedis::open(server.url()).await.unwrap();
    let wrapped = Spool::open(file, SpoolOptions::default()).unwrap().wrap(redis);
    server.kill();
    for event in events {
        wrapped.enqueue(event).await.unwrap();
    }
    assert_eq!(wrapped.spool().len(), events.len() as u64);
    server.start_again().unwrap();
    let other = LiveRedis::open(server.url()).await.unwrap();
    for taken in events {
        other.enqueue(&event(taken.request_id(), "9")).await.unwrap();
    }
    let replayer = wrapped.replayer();
    while wrapped.spool().status().conflicts < events.len() as u64 {
        // An error is that of the connection that broke; the next step has another.
        let _ = replayer.replay_once().await;
    }
    wrapped.spool().clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conflicts_are_listed_and_taken_out_one_by_one_and_none_is_lost_unprinted() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bills.spool");
    let events = [event("r-1", "0.000000000001"), event("r-2", "2")];
    let held = conflicting(&file, &events).await;
    // The file is one process's.
    let text = complaint(&spool(&["list"], &file));
    assert!(text.contains("is in use") && text.contains("stop its gateway"), "{text}");
    assert!(complaint(&spool(&["take", "r-1", "--yes"], &file)).contains("stop its gateway"));
    held.close().await;
    drop(held);

    let listed = spool(&["list"], &file);
    let text = stdout(&listed);
    assert!(
        text.contains("r-1") && text.contains("0.000000000001") && text.contains("2 conflicts"),
        "{text}"
    );
    assert_eq!(kept(&file), ["r-1", "r-2"]);

    let whole = format!("{{{}\n", events[0].body());
    let shown = spool(&["take", "r-1"], &file);
    assert_eq!(stdout(&shown), whole);
    assert!(String::from_utf8_lossy(&shown.stderr).contains("--yes"), "{shown:?}");
    assert_eq!(kept(&file), ["r-1", "r-2"], "only shown");

    assert_eq!(stdout(&spool(&["take", "r-1", "--yes"], &file)), whole);
    assert_eq!(kept(&file), ["r-2"]);
    for id in ["r-1", "r", ""] {
        let text = complaint(&spool(&["take", id, "--yes"], &file));
        assert!(text.contains(&format!("no conflict with request id {id:?}")), "{text}");
    }
    // What cannot be printed stays.
    let mut command = Command::new(env!("CARGO_BIN_EXE_tallyweir-gateway"));
    command.args(["spool", "take", "r-2", "--yes", "--spool"]).arg(&file).stdin(Stdio::null());
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let unprinted = command.stdout(full).output().unwrap();
    let text = String::from_utf8_lossy(&unprinted.stderr);
    assert!(unprinted.status.code() == Some(1) && text.contains("nothing was taken out"), "{text}");
    assert_eq!(kept(&file), ["r-2"]);
}

#[test]
fn what_is_no_spool_is_said_in_one_line_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("none.spool");
    let (text, empty) = (folder.path().join("text"), folder.path().join("empty"));
    std::fs::write(&text, "a letter\n".repeat(1_000)).unwrap();
    std::fs::write(&empty, "").unwrap();
    let before = std::fs::read(&text).unwrap();
    for words in [&["list"][..], &["list", "--json"], &["take", "r", "--yes"]] {
        assert!(complaint(&spool(words, &missing)).contains("there is no spool at"));
        assert!(!missing.exists(), "none was made");
        for (file, said) in [(text.as_path(), "is damaged"), (&empty, "is empty"), (folder.path(), "opened")]
        {
            let complaint = complaint(&spool(words, file));
            assert!(complaint.contains(said), "{complaint}");
        }
        assert_eq!(std::fs::read(&text).unwrap(), before);
        assert_eq!(std::fs::read(&empty).unwrap(), b"");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
}
