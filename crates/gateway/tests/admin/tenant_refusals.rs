//! What `tenant` refuses, each in one line that names entry and field, and that nothing was written then.

use std::process::Command;

use iam_ledger::{LedgerError, ScopeKind};
use serde_json::Value;

use crate::office::{Office, complaint};

const O: &str = "[[organizations]]\nid = 'o'\nrpm = 100\nbudget_usd = '10'\n";

#[tokio::test]
async fn a_file_that_is_wrong_is_refused_before_anything_is_written() {
    let office = Office::open().await;
    for (text, message) in [
        ("rpmm = 5", "organizations \"o\", field rpmm: unknown; there are id, name, rpm, tpm, budget_usd, "),
        ("tpm = 'x'", "organizations \"o\", field tpm: a whole number is expected, not string"),
        ("[[teams]]\nid = 't'", "teams \"t\", field organization: missing"),
        (
            "[[teams]]\nid = 't'\norganization = 'p'",
            "teams \"t\", field organization: there is no organization \"p\", neither in this file nor in the ledger",
        ),
        (
            "[[keys]]\nid = 'k'",
            "keys \"k\", field organization: missing; a key has an organization or a user",
        ),
        ("[[keys]]\nid = 'k'\nuser = 'u'", "keys \"k\", field user: there is no user \"u\", neither"),
        (
            "[[users]]\nid = 'u'\n[[keys]]\nid = 'k'\norganization = 'o'\nuser = 'u'",
            "keys \"k\", field organization: must be absent, as its user \"u\" has none",
        ),
        (
            "[[users]]\nid = 'u'\norganization = 'o'\n[[keys]]\nid = 'k'\nuser = 'u'",
            "keys \"k\", field organization: must be \"o\", that of its user \"u\"",
        ),
    ] {
        let error = office.refused(&format!("{O}{text}\n"));
        assert!(error.starts_with(message), "{error}");
        let missing = office.ledger.identity(ScopeKind::Organization, "o").await;
        assert!(matches!(missing, Err(LedgerError::NotFound { .. })), "{text}");
    }
    assert!(office.refused("[[teams]\n").contains("tenant.toml, line 1: "));
}

#[tokio::test]
async fn more_than_there_is_cannot_be_allocated() {
    let office = Office::open().await;
    let team = |rest: &str| format!("{O}[[teams]]\nid = 't'\norganization = 'o'\n{rest}\n");
    assert_eq!(
        office.refused(&team("rpm = 101")),
        "teams \"t\", field rpm: over-allocated: organization \"o\" would have 100 in rpm, with 0 allocated below it and 101 more asked"
    );
    let error = office.refused(&team("budget_usd = '10.000000000001'"));
    assert!(
        error.starts_with("teams \"t\", field budget_usd: over-allocated: organization \"o\""),
        "{error}"
    );
    office.applied(&team("rpm = 100\nbudget_usd = '10'"));
    let error = office.refused(&team("rpm = 101\nbudget_usd = '10'"));
    assert!(error.starts_with("teams \"t\", field rpm: over-allocated"), "{error}");
}

#[tokio::test]
async fn what_the_ledger_alone_knows_is_named_too() {
    let office = Office::open().await;
    let error = office.refused("[[organizations]]\nid = 'o'\nbudget_time_zone = 'Mars/Olympus'");
    assert!(error.starts_with("organizations \"o\", field budget_time_zone: "), "{error}");
    office.applied(&format!(
        "{O}[[teams]]\nid = 't'\norganization = 'o'\n[[users]]\nid = 'u'\norganization = 'o'\n"
    ));
    let error = office.refused("[[keys]]\nid = 'k'\norganization = 'o'\nteam = 't'\nuser = 'u'");
    assert!(error.starts_with("keys \"k\", field team: "), "{error}");
    assert_eq!(
        office.refused("[[users]]\nid = 'u'\norganization = 'o'\nteam = 't'"),
        "users \"u\", field team: owners never change, and it has none"
    );
}

#[tokio::test]
async fn what_was_done_before_a_refusal_is_told_with_its_secrets() {
    let office = Office::open().await;
    let output = office.tenant(
        &format!("{O}[[keys]]\nid = 'first'\norganization = 'o'\n[[keys]]\nid = 'second'\norganization = 'o'\nrpm = 101\n"),
        &["--json"],
    );
    assert!(complaint(&output).starts_with("keys \"second\", field rpm: over-allocated"));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["created"], serde_json::json!(["organization/o", "key/first"]));
    assert!(office.who(report["keys"][0]["secret"].as_str().unwrap()).await.is_ok());
}

#[test]
fn without_a_pepper_or_a_database_it_says_which_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tenant.toml");
    std::fs::write(&file, O).unwrap();
    let pepper = format!("--pepper={}", "p".repeat(32));
    for (given, missing) in
        [("--database-url=postgres://127.0.0.1:1/d", "--pepper-file"), (&pepper, "--database-url-file")]
    {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tallyweir-gateway"));
        let output = command.arg("tenant").arg(&file).arg(given).env_clear().output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let text = complaint(&output);
        assert!(text.contains(missing) && text.contains("exactly one of"), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
}
