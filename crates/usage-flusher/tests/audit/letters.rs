//! Refused entries: named with their amount until they are settled, and settled by what the runbook says.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use spend_queue::{SpendQueue, Usd};

use crate::support::{Stack, event, team};
use crate::{audit, checks, enqueue, flush, only, says};

const RUNBOOK: &str = include_str!("../../../../docs/operations/runbook.md");

/// A ledger with a rule that refuses the event `bad`.
async fn refusing(rule: &str) -> Stack {
    let stack = Stack::start().await;
    let statement = format!("alter table usage_events add constraint refused check ({rule})");
    stack.database.execute("a rule of the database", &statement).unwrap();
    enqueue(&stack, 0..2).await;
    stack.hot.enqueue(&event("bad", 7)).await.unwrap();
    flush(&stack).await;
    stack
}

async fn spent(stack: &Stack) -> Usd {
    let periods = stack.ledger.spend_of(&team()).await.unwrap();
    Usd::checked_sum(periods.iter().map(|period| period.spend)).unwrap()
}

/// The shell blocks of the section on dead letters, in order.
fn commands() -> Vec<String> {
    let section = RUNBOOK.split("\n### ").find(|section| section.starts_with("DeadLetters\n")).unwrap();
    let blocks = section.split("```sh\n").skip(1).map(|block| block.split("```").next().unwrap());
    blocks.map(|block| block.lines().map(str::trim_start).collect::<Vec<_>>().join("\n")).collect()
}

/// Runs a block of the page as it stands, in a folder of its own, with an editor that makes this change.
fn follow(stack: &Stack, block: &str, change: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let editor = folder.path().join("editor");
    std::fs::write(&editor, format!("#!/bin/sh\nexec sed -i '{change}' \"$1\"\n")).unwrap();
    std::fs::set_permissions(&editor, Permissions::from_mode(0o755)).unwrap();
    let binary = Path::new(env!("CARGO_BIN_EXE_usage-flusher")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    shell.args(["-euc", block]).current_dir(folder.path()).env("PATH", path).env("EDITOR", editor);
    shell.env("TALLYWEIR_DATABASE_URL", stack.database.url());
    let output = shell.output().unwrap();
    assert!(output.status.success(), "{block}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn an_open_refused_letter_is_named_with_its_amount_and_a_conflict_is_a_remark() {
    let stack = refusing("request_id <> 'bad'").await;
    let report = audit(&stack);
    let what = only(&report, "ledger.dead_letters");
    assert!(what.contains("1 refused entries") && what.contains("0.000000000007 USD"), "{what}");

    let stack = Stack::start().await;
    enqueue(&stack, 0..1).await;
    flush(&stack).await;
    let _: u64 = crate::redis(&stack, "DEL", &["state"]).await;
    let mut connection = redis::Client::open(stack.redis.url()).unwrap().get_connection().unwrap();
    let keys: Vec<String> =
        redis::cmd("KEYS").arg(format!("{}:*seen*", stack.redis.prefix())).query(&mut connection).unwrap();
    let _: u64 = redis::cmd("DEL").arg(keys).query(&mut connection).unwrap();
    stack.hot.enqueue(&event("r0", 6)).await.unwrap();
    flush(&stack).await;
    let report = audit(&stack);
    assert!(says(&report, "remarks", &["another payload", "0.000000000006 USD"]), "{report}");
    assert!(!checks(&report).contains(&"ledger.dead_letters"), "{report}");
}

#[tokio::test]
async fn the_runbooks_commands_settle_a_letter_once_after_the_cause_is_mended() {
    let stack = refusing("request_id <> 'bad'").await;
    stack.database.execute("mend", "alter table usage_events drop constraint refused").unwrap();
    let mended = &commands()[0];
    assert!(follow(&stack, mended, "").contains("settled"));
    assert!(follow(&stack, mended, "").contains("already done"));
    assert_eq!(spent(&stack).await, Usd::from_picos(17));
    assert_eq!(audit(&stack)["verdict"], "exact");
}

#[tokio::test]
async fn the_runbooks_commands_settle_a_corrected_letter_once() {
    let stack = refusing("model <> 'm' or request_id <> 'bad'").await;
    let corrected = &commands()[1];
    let change = r#"s/"model":"m"/"model":"mended"/"#;
    assert!(follow(&stack, corrected, change).contains("settled"));
    assert!(follow(&stack, corrected, change).contains("already done"));
    assert_eq!(spent(&stack).await, Usd::from_picos(17));
    let report = audit(&stack);
    assert_eq!(report["verdict"], "exact", "{report}");
    let retry = stack.hot.enqueue(&event("bad", 7)).await.unwrap();
    assert_eq!(retry, spend_queue::Enqueued::Duplicate, "Redis knows the id, and the ledger has settled it");
}

#[tokio::test]
async fn a_correction_of_another_request_is_refused_and_changes_nothing() {
    let stack = refusing("request_id <> 'bad'").await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("entry.json");
    let id = stack.ledger.dead_letters(iam_ledger::DeadLetterPage::default()).await.unwrap()[0].id;
    let raw = String::from_utf8(stack.ledger.dead_letter(id).await.unwrap().raw).unwrap();
    std::fs::write(&file, raw.replace("\"bad\"", "\"other\"")).unwrap();
    let (id, file) = (id.to_string(), file.to_str().unwrap());
    let output = crate::run(&stack, &["dead-letters", "replay", &id, "--entry", file, "--yes"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(!output.status.success() && said.contains("is of request bad and --entry of other"), "{said}");
    for (words, accepted) in [
        (vec!["--entry", "/no/such/file"], "a file that can be read is accepted"),
        (vec!["999", "--entry", file], "one letter is accepted with it"),
    ] {
        let output = crate::run(&stack, &[&["dead-letters", "replay", &id, "--yes"][..], &words].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.contains(accepted), "{words:?}: {said}");
    }
    assert_eq!(checks(&audit(&stack)), ["ledger.dead_letters"]);
    assert_eq!(spent(&stack).await, Usd::from_picos(10));
}
