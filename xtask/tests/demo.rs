//! The main job, small: the commands that the README shows do what it says.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::process::{Command, Output};

use serde_json::Value;

fn xtask(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    // The demo's servers are its own.
    command.env_remove("TALLYWEIR_REDIS_URL").env_remove("TALLYWEIR_DATABASE_URL");
    command.args(words).output().unwrap()
}

#[test]
fn a_demo_whose_flusher_is_killed_reconciles_to_the_last_picodollar() {
    let output = xtask(&["demo", "--events", "1500", "--kill-flusher", "1", "--json"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8(output.stdout).unwrap();
    let report: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(report["reconciled"], true, "{report}");
    assert_eq!(report["requests"], 1500);
    assert_eq!(report["flusher_killed"], 1);
    assert_eq!(report["queue_left"], 0);
    assert_eq!(report["hot_left_usd"], "0");
    assert_eq!(report["ledger_usd"], report["expected_usd"]);
    let count = |name: &str| report[name].as_u64().unwrap();
    assert_eq!(count("enqueued"), count("admitted"));
    assert_eq!(count("committed"), count("admitted"));
    assert!(count("duplicates_sent") > 0 && count("admitted") > 0);
    let rejected: u64 = report["rejected"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
    assert_eq!(count("admitted") + rejected, 1500);
}

#[test]
fn a_demo_with_an_unreadable_or_malformed_trace_says_where_and_fails() {
    let folder = std::env::temp_dir().join(format!("tallyweir-demo-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let bad = folder.join("bad.csv");
    std::fs::write(&bad, "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.68,12,x\n").unwrap();
    for (trace, words) in
        [(bad.clone(), &["bad.csv:2", "GeneratedTokens"][..]), (folder.join("none.csv"), &["none.csv"])]
    {
        let output = xtask(&["demo", "--trace", trace.to_str().unwrap()]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{errors}");
        assert!(words.iter().all(|word| errors.contains(word)), "{errors}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
