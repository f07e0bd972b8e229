//! Chaos, short: an honest run passes, and its check sees every falsehood that is planted.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::process::Command;

use serde_json::Value;

#[test]
fn a_short_run_passes_and_every_planted_falsehood_is_seen() {
    let falsehoods = [
        "lose-entry",
        "leave-pending",
        "double-scope",
        "drift-day",
        "drop-event",
        "drop-guard",
        "copy-event",
        "invent-event",
        "change-cost",
        "exceed-limit",
        "accept-twice",
    ];
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(["chaos", "--seconds", "8", "--seed", "1", "--json"]);
    for falsehood in falsehoods {
        command.args(["--sabotage", falsehood]);
    }
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{errors}", String::from_utf8_lossy(&output.stdout));
    let text = String::from_utf8(output.stdout).unwrap();
    let report: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(report["passed"], true, "{report}");
    assert_eq!(report["seed"], 1);
    for falsehood in falsehoods {
        assert_eq!(report["sabotage"][falsehood], true, "{falsehood}: {report}");
    }
    assert!(report["fault_count"].as_u64().unwrap() > 0);
    assert!(report["settled"].as_u64().unwrap() > 0);
}
