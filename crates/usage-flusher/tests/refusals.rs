//! What the binary refuses: one clear line, a non-zero exit, no password.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod support;

use std::process::Stdio;

use support::{Stack, binary};

const CANARY: &str = "canary-password";

/// Runs the binary with these words and variables; returns its error text.
fn refused(words: &[&str], variables: &[(&str, &str)]) -> String {
    let output = binary()
        .args(words)
        .envs(variables.iter().copied())
        .env("RUST_LOG", "error")
        .stdout(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{words:?} succeeded: {text}");
    assert!(!text.contains(CANARY), "{text}");
    assert!(text.starts_with("error: ") && text.trim_end().lines().count() == 1, "{text}");
    text
}

#[test]
fn each_flag_with_a_wrong_value_is_named_with_what_is_accepted() {
    let urls = [
        ("TALLYWEIR_REDIS_URL", "redis://:canary-password@127.0.0.1:1"),
        ("TALLYWEIR_DATABASE_URL", "postgres://u:canary-password@127.0.0.1:1/d"),
    ];
    for (flag, values, accepted) in [
        ("--batch-min", &["0", "10001", "x", "-1", ""][..], "1 to 10000"),
        ("--batch-max", &["0", "10001", "1.5"], "1 to 10000"),
        ("--shards", &["0", "16385", "x"], "1 to 16384"),
        ("--linger-ms", &["0", "3600001", "1s"], "1 to 3600000"),
        ("--idle-ms", &["0", "x"], "1 to 3600000"),
        ("--redis-deadline-ms", &["0", "x"], "1 to 3600000"),
        ("--stop-deadline-ms", &["0", "x"], "1 to 3600000"),
        ("--prefix", &["", "a{b}", "a b"], "1 to 64 characters"),
        ("--log-format", &["xml"], "json"),
        ("--in-flight", &["0", "65", "x"], "1 to 64"),
        ("--flush-log-days", &["-1", "36501", "90d"], "0 to 36500"),
        ("--scan-bound", &["0", "x"], "1 to 10000000"),
        ("--dedup-retention", &["0", "0d", "30", "moon", ""], "from 60s to 3650d"),
        ("--window-clock", &["moon", ""], "local or redis"),
        ("--micro-batch", &["0", "1001", "x"], "1 to 1000"),
        ("--hot-connections", &["0", "65", "x"], "1 to 64"),
        ("--listen", &["9464", "localhost:9464", "127.0.0.1"], "such as 127.0.0.1:9464"),
        ("--older-queue", &["", "a{b}"], "1 to 64 characters"),
        ("--redis-ca-file", &["/nowhere/ca.pem"], "a PEM file"),
        ("--redis-cert-file", &["/nowhere/cert.pem"], "a PEM file"),
        ("--redis-key-file", &["/nowhere/key.pem"], "a PEM file"),
    ] {
        for value in values {
            let text = refused(&["run", &format!("{flag}={value}")], &urls);
            assert!(text.contains(flag) && text.contains(accepted), "{flag}={value}: {text}");
        }
    }
    let text = refused(&["run", "--batch-min=200", "--batch-max=100"], &urls);
    assert!(text.contains("smallest batch (200) is above the largest (100)"), "{text}");
}

#[test]
fn a_variable_with_a_wrong_value_is_refused_as_its_flag_is() {
    for (variable, value, accepted) in [
        ("TALLYWEIR_BATCH_MIN", "none", "1 to 10000"),
        ("TALLYWEIR_IN_FLIGHT", "4.0", "1 to 64"),
        ("TALLYWEIR_FLUSH_LOG_DAYS", "", "0 to 36500"),
        ("TALLYWEIR_LISTEN", "*:9464", "such as 127.0.0.1:9464"),
        ("TALLYWEIR_LOG_FORMAT", "logfmt", "json"),
    ] {
        let text = refused(&["run"], &[(variable, value)]);
        let flag = variable.trim_start_matches("TALLYWEIR_").to_lowercase().replace('_', "-");
        assert!(text.contains(&format!("--{flag}")) && text.contains(accepted), "{text}");
    }
}

#[test]
fn a_url_comes_from_exactly_one_place_and_a_file_that_holds_none_is_named_without_its_content() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let url = "postgres://u:canary-password@127.0.0.1:1/d";
    let (sound, two) = (file("sound", &format!("{url}\n")), file("two", &format!("{url}\n{url}\n")));
    let both = [("TALLYWEIR_DATABASE_URL", url), ("TALLYWEIR_DATABASE_URL_FILE", &*sound)];
    assert!(refused(&["migrate"], &both).contains("both given; exactly one"));
    assert!(refused(&["migrate"], &[("TALLYWEIR_DATABASE_URL_FILE", &two)]).contains("it has 2 lines"));
    let nowhere = refused(&["run", "--redis-url-file=/nowhere"], &[("TALLYWEIR_DATABASE_URL", url)]);
    assert!(nowhere.contains("--redis-url-file /nowhere: No such file"), "{nowhere}");
    // It is read: the server is what is missing.
    let text = refused(&["migrate"], &[("TALLYWEIR_DATABASE_URL_FILE", &sound)]);
    assert!(text.contains("cannot connect to PostgreSQL at 127.0.0.1:1/d"), "{text}");
}

#[test]
fn a_missing_url_is_named() {
    let text = refused(&["run"], &[("TALLYWEIR_DATABASE_URL", "postgres://h/d")]);
    assert!(text.contains("--redis-url"), "{text}");
    assert!(refused(&["migrate"], &[]).contains("--database-url"));
}

#[test]
fn unreachable_and_malformed_urls_are_one_line_that_says_what_failed() {
    let database = devstack::postgres().unwrap().database("refusals").unwrap();
    let migrated = binary().arg("migrate").env("TALLYWEIR_DATABASE_URL", database.url()).status().unwrap();
    assert!(migrated.success());
    let one_line = |text: &str| assert_eq!(text.trim_end().lines().count(), 1, "{text}");
    for url in
        ["nonsense-canary-password", "redis://:canary-password@127.0.0.1:1", "http://u:canary-password@h"]
    {
        let text =
            // The tests' PostgreSQL does not fsync.
            refused(&["run", "--lenient-start"], &[("TALLYWEIR_REDIS_URL", url), ("TALLYWEIR_DATABASE_URL", database.url())]);
        one_line(&text);
        assert!(text.contains("Redis"), "{text}");
    }
    for url in ["nonsense-canary-password", "postgres://u:canary-password@127.0.0.1:1/d"] {
        let text = refused(&["migrate"], &[("TALLYWEIR_DATABASE_URL", url)]);
        one_line(&text);
    }
    let wrong_user = database.url().replacen("://", "://nobody-here:canary-password@x-", 1);
    one_line(&refused(&["migrate"], &[("TALLYWEIR_DATABASE_URL", &wrong_user)]));
}

#[tokio::test]
async fn a_database_that_was_not_migrated_is_refused_with_the_command_that_helps() {
    let stack = Stack::start().await;
    let bare = devstack::postgres().unwrap().database("bare").unwrap();
    let variables = [("TALLYWEIR_REDIS_URL", stack.redis.url()), ("TALLYWEIR_DATABASE_URL", bare.url())];
    let text = refused(&["run"], &variables);
    assert!(text.contains("usage-flusher migrate"), "{text}");
}
