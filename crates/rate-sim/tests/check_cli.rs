//! The commands as their users meet them: output, errors and exit codes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The binary without the services of the environment, so that it starts its own where it needs one.
fn rate_sim(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rate-sim"));
    command.args(args);
    for variable in ["TALLYWEIR_REDIS_URL", "TALLYWEIR_DATABASE_URL", "TALLYWEIR_PREFIX", "TALLYWEIR_SHARDS"]
    {
        command.env_remove(variable);
    }
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn small() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/small.jsonl")
}

/// The committed cases, and a larger file of the same format when it lies beside the checkout.
fn files() -> Vec<PathBuf> {
    let larger = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/cases/rate-plan.jsonl");
    [small()].into_iter().chain(Some(larger).filter(|file| file.exists())).collect()
}

fn assert_agrees(output: &Output, file: &Path) {
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let cases = fs::read_to_string(file).unwrap();
    assert_eq!(stdout.lines().count(), cases.lines().count());
    for (got, case) in stdout.lines().zip(cases.lines()) {
        let (got, case): (serde_json::Value, serde_json::Value) =
            (serde_json::from_str(got).unwrap(), serde_json::from_str(case).unwrap());
        assert_eq!((&got["name"], &got["got"]), (&case["name"], &case["want"]));
    }
    assert!(stderr.lines().last().unwrap().contains(" decisions: 0 differ in 0 cases"), "{stderr}");
}

/// A file with one case whose second answer is not the wanted one.
fn differing(folder: &Path) -> PathBuf {
    let path = folder.join("differing.jsonl");
    let cases = fs::read_to_string(small()).unwrap();
    fs::write(
        &path,
        cases.replacen("\"want\":[\"ok\",\"organization rpm_limit\"", "\"want\":[\"ok\",\"ok\"", 1),
    )
    .unwrap();
    path
}

#[test]
fn the_reference_agrees_with_every_recorded_case() {
    for file in files() {
        assert_agrees(&rate_sim(&["check"]).arg(&file).output().unwrap(), &file);
    }
}

#[test]
fn redis_agrees_with_every_recorded_case() {
    let redis = devstack::redis().unwrap().test();
    for file in files() {
        let args = ["check", "--backend", "redis", "--prefix", redis.prefix()];
        let output = rate_sim(&args).arg(&file).env("TALLYWEIR_REDIS_URL", redis.url()).output().unwrap();
        assert_agrees(&output, &file);
    }
}

#[test]
fn without_a_url_a_private_redis_is_started_and_said_so() {
    let output = rate_sim(&["check", "--backend", "redis"]).arg(small()).output().unwrap();
    assert_agrees(&output, &small());
    assert!(text(&output.stderr).starts_with("no --redis-url given: started a private Redis server"));
}

#[test]
fn a_difference_is_reported_and_is_exit_code_1_with_either_backend() {
    let folder = tempfile::tempdir().unwrap();
    let file = differing(folder.path());
    let redis = devstack::redis().unwrap().test();
    for backend in ["reference", "redis"] {
        let args = ["check", "--backend", backend, "--redis-url", redis.url(), "--prefix", redis.prefix()];
        let output = rate_sim(&args).arg(&file).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{backend}");
        let stderr = text(&output.stderr);
        let wanted = "case \"a quiet team keeps its allocation\", step 1: wanted \"ok\", got \"organization rpm_limit\"\n";
        assert!(stderr.starts_with(wanted), "{backend}: {stderr}");
        assert!(stderr.ends_with(": 1 differ in 1 cases\n"), "{stderr}");
        assert_eq!(text(&output.stdout).lines().count(), 3, "every case is decided all the same");
    }
}

/// Asserts a failure: exit code 2, one line that begins with `error: ` and has these parts, nothing on standard output.
fn assert_fails(command: &mut Command, parts: &[&str]) {
    let output = command.output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{command:?}\n{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.starts_with("error: "), "{stderr}");
    for part in parts {
        assert!(stderr.contains(part), "{part:?} is not in {stderr}");
    }
    assert!(!stderr.contains("canary"), "{stderr}");
    assert_eq!(text(&output.stdout), "");
}

#[test]
fn a_file_that_is_missing_or_malformed_is_named_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cases.jsonl");
    fs::write(&file, fs::read_to_string(small()).unwrap() + "{\"name\":7}\n").unwrap();
    assert_fails(rate_sim(&["check"]).arg(&file), &["cases.jsonl:4: column 9: invalid type: integer `7`"]);
    assert_fails(&mut rate_sim(&["check", "/no/such/cases"]), &["/no/such/cases: cannot be read: "]);
}

#[test]
fn a_redis_that_does_not_answer_is_an_error_that_shows_no_password() {
    for url in ["redis://:canary@127.0.0.1:1/", "canary://127.0.0.1/", "redis://:canary@[/"] {
        let args = ["check", "--backend", "redis", "--redis-url", url];
        assert_fails(rate_sim(&args).arg(small()), &["Redis"]);
    }
}

#[test]
fn a_malformed_trace_is_named_before_any_service_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.csv");
    fs::write(
        &trace,
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,1,1\n2023-11-16 18:15:47,12x,1\n",
    )
    .unwrap();
    let urls =
        ["--redis-url", "redis://:canary@127.0.0.1:1", "--database-url", "postgres://:canary@127.0.0.1:1/d"];
    let mut command = rate_sim(&["replay", "--trace"]);
    assert_fails(
        command.arg(&trace).args(urls),
        &["trace.csv:3: column ContextTokens: not a whole number: \"12x\""],
    );
}

#[test]
fn a_replay_without_its_services_says_what_it_needs() {
    assert_fails(&mut rate_sim(&["replay"]), &["--redis-url", "--database-url"]);
    let redis = devstack::redis().unwrap();
    let refused = "postgres://user:canary@127.0.0.1:1/db";
    assert_fails(
        &mut rate_sim(&["replay", "--redis-url", redis.url(), "--database-url", refused]),
        &["cannot connect to PostgreSQL at 127.0.0.1:1/db"],
    );
}

#[test]
fn a_database_without_tables_is_an_error_that_says_how_to_make_them() {
    let redis = devstack::redis().unwrap();
    let database = devstack::postgres().unwrap().database("rate_sim").unwrap();
    let args = ["replay", "--redis-url", redis.url(), "--database-url", database.url()];
    assert_fails(&mut rate_sim(&args), &["usage-flusher migrate"]);
}

#[test]
fn help_names_units_and_defaults_and_no_secret() {
    let mut command = rate_sim(&["replay", "--help"]);
    let output = command.env("TALLYWEIR_REDIS_URL", "redis://:canary@h").output().unwrap();
    let help = text(&output.stdout);
    for part in
        ["in seconds", "[default: 60]", "[default: 20000]", "TALLYWEIR_DATABASE_URL", "[default: tallyweir]"]
    {
        assert!(help.contains(part), "{part:?} is not in\n{help}");
    }
    assert!(!help.contains("canary"));
}

#[test]
fn bad_usage_is_exit_code_2() {
    for args in [&["check"][..], &["replay", "--events", "0"], &["generate"], &["unknown"], &[]] {
        assert_eq!(rate_sim(args).output().unwrap().status.code(), Some(2), "{args:?}");
    }
}

#[test]
fn a_generated_trace_is_the_same_for_the_same_seed() {
    let generate =
        |seed| text(&rate_sim(&["generate", "--events", "50", "--seed", seed]).output().unwrap().stdout);
    assert_eq!(generate("7"), generate("7"));
    assert_ne!(generate("7"), generate("8"));
    assert_eq!(generate("7").lines().count(), 51);
}
