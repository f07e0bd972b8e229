//! The command `doctor`: its exit codes, its JSON, its table, and no password in any of them.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod support;

use std::net::TcpListener;
use std::process::Output;

use devstack::{AppendFsync, PostgresServer, RedisBuilder, RedisServer};
use serde_json::Value;
use support::binary;

const CANARY: &str = "canary-password";
const MORE_CANARY: &str = "canary-of-postgres";

fn doctor(words: &[&str], redis: &str, database: &str) -> Output {
    let mut command = binary();
    command.arg("doctor").args(words).env("RUST_LOG", "debug");
    for (name, url) in [("TALLYWEIR_REDIS_URL", redis), ("TALLYWEIR_DATABASE_URL", database)] {
        if !url.is_empty() {
            command.env(name, url);
        }
    }
    let output = command.output().unwrap();
    for text in [&output.stdout, &output.stderr] {
        let text = String::from_utf8_lossy(text);
        assert!(!text.contains(CANARY) && !text.contains(MORE_CANARY), "{text}");
    }
    output
}

/// The one object that `--json` prints, checked for its form; with the exit code that goes with it.
fn report(words: &[&str], redis: &str, database: &str) -> Value {
    let output = doctor(&[&["--json"], words].concat(), redis, database);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), 1, "{text} {}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_str(&text).unwrap();
    let findings = report["findings"].as_array().unwrap();
    for finding in findings {
        for field in ["check", "severity", "what", "why", "mend"] {
            assert!(finding[field].is_string(), "{finding}");
        }
        assert_eq!(finding["severity"] == "ok", finding["mend"] == "", "{finding}");
    }
    let healthy = findings.iter().all(|finding| finding["severity"] != "fatal");
    assert_eq!(report["healthy"], healthy, "{report:#}");
    assert_eq!(output.status.code(), Some(i32::from(!healthy)));
    report
}

/// The checks of a severity.
fn checks<'a>(report: &'a Value, severity: &str) -> Vec<&'a str> {
    let findings = report["findings"].as_array().unwrap().iter();
    findings.filter(|one| one["severity"] == severity).map(|one| one["check"].as_str().unwrap()).collect()
}

fn redis() -> RedisBuilder {
    RedisServer::builder()
        .password(CANARY)
        .appendonly(true)
        .appendfsync(AppendFsync::Always)
        .arg("maxmemory", "1gb")
}

#[test]
fn healthy_servers_are_exit_code_0_and_each_thing_that_is_fatal_is_1() {
    let postgres = PostgresServer::builder().start().unwrap();
    let database = postgres.database("doctor").unwrap();
    let healthy = redis().start().unwrap();

    let before = report(&[], healthy.url(), database.url());
    assert_eq!(checks(&before, "fatal"), ["postgresql.migrations"]);
    let migrated = binary().arg("migrate").env("TALLYWEIR_DATABASE_URL", database.url()).status().unwrap();
    assert!(migrated.success());

    let after = report(&[], healthy.url(), database.url());
    assert_eq!(after["role"], "flusher");
    assert_eq!((checks(&after, "fatal").len(), checks(&after, "warning").len()), (0, 0), "{after:#}");
    assert_eq!(checks(&after, "note"), ["postgresql.encryption"]);

    let table = doctor(&["--role", "operator"], healthy.url(), database.url());
    let text = String::from_utf8(table.stdout).unwrap();
    assert!(table.status.success(), "{text}");
    assert!(
        text.contains("redis.eviction") && text.contains("0 fatal") && text.contains("role operator"),
        "{text}"
    );

    let evicting = redis().arg("maxmemory-policy", "allkeys-lru").start().unwrap();
    assert_eq!(checks(&report(&[], evicting.url(), database.url()), "fatal"), ["redis.eviction"]);
    let table = doctor(&[], evicting.url(), database.url());
    let text = String::from_utf8(table.stdout).unwrap();
    assert_eq!(table.status.code(), Some(1));
    assert!(
        text.contains("why: under memory pressure") && text.contains("mend: set `maxmemory-policy"),
        "{text}"
    );

    let weak = redis().acl_user(format!("weak on >{CANARY} ~* +@all -@scripting")).start().unwrap();
    let found = report(&["--role", "gateway"], &weak.url_as("weak", CANARY), database.url());
    assert_eq!(checks(&found, "fatal"), ["redis.scripts"]);

    let careless = redis().appendonly(false).start().unwrap();
    let found = report(&[], careless.url(), database.url());
    assert_eq!(checks(&found, "warning"), ["redis.persistence"]);
}

#[test]
fn a_database_that_may_forget_commits_is_fatal() {
    let postgres = PostgresServer::builder().setting("fsync", "off").start().unwrap();
    let database = postgres.database("careless").unwrap();
    assert!(
        binary().arg("migrate").env("TALLYWEIR_DATABASE_URL", database.url()).status().unwrap().success()
    );
    let healthy = redis().start().unwrap();
    assert_eq!(checks(&report(&[], healthy.url(), database.url()), "fatal"), ["postgresql.fsync"]);
}

#[test]
fn servers_that_are_not_there_and_urls_that_are_none_are_findings() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let redis = format!("redis://:{CANARY}@127.0.0.1:{port}");
    let database = format!("postgres://u:{MORE_CANARY}@127.0.0.1:{port}/d");
    let found = report(&[], &redis, &database);
    assert_eq!(checks(&found, "fatal"), ["redis.reachable", "postgresql.reachable"]);
    for role in ["flusher", "gateway"] {
        let (redis, database) = (format!("nonsense-{CANARY}"), format!("nonsense-{MORE_CANARY}"));
        let found = report(&["--role", role], &redis, &database);
        assert_eq!(checks(&found, "fatal"), ["redis.url", "postgresql.url"]);
    }
    let found = report(&["--role", "gateway"], "", "");
    assert_eq!(
        (checks(&found, "fatal"), checks(&found, "note")),
        (vec!["redis.url"], vec!["postgresql.url"])
    );
    assert_eq!(checks(&report(&[], "", ""), "fatal"), ["redis.url", "postgresql.url"]);
}

#[test]
fn an_unknown_role_is_refused_with_those_that_exist() {
    let output = doctor(&["--role", "king"], "", "");
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text.contains("flusher") && text.contains("gateway") && text.contains("operator"), "{text}");
}
