//! The formulas that `proofs/` proves for all integers are the ones that are implemented: on each path of the table the code
//! gives what the formulas gave (`proofs/vectors.py` says how the table is made).

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::sync::Arc;

use rate_plan::{
    Adjustment, Decision, Dimension, Limits, Node, NodeWindow, RatePlan, RateTree, Scope, Usage,
    adjust_on_path, check, check_on_path, rebuild,
};
use serde_json::Value;

const TABLE: &str = include_str!("../../../proofs/vectors.jsonl");

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

fn tokens(limit: Option<u64>) -> Limits {
    Limits { rpm: None, tpm: limit }
}

/// The tree of a row, leaf to root, each path node with one fixed child that is not on the path; and what each has used.
fn plant(steps: &[Value]) -> (RatePlan, Vec<Usage>) {
    let (mut nodes, mut usage) = (Vec::new(), Vec::new());
    let mut add = |kind: &str, parent, limits, used: &Value| {
        nodes.push(Node { scope: Scope::new(kind, nodes.len().to_string()).unwrap(), parent, limits });
        usage.push(Usage { rpm: 0, tpm: number(used) });
    };
    for (at, step) in steps.iter().enumerate() {
        // Path nodes are the even ones, each one's sibling of the path below it comes right behind it.
        let parent = (at + 1 < steps.len()).then_some(2 * at + 2);
        add("path", parent, tokens(step["limit"].as_u64()), &step["used"]);
        add("beside", Some(2 * at), tokens(Some(number(&step["sibling"]))), &step["sibling_used"]);
    }
    let tree = Arc::new(RateTree::new(nodes).unwrap());
    (tree.plan(0).unwrap(), usage)
}

#[test]
fn the_code_gives_what_the_proved_formulas_gave() {
    let mut refused = 0;
    for line in TABLE.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let (plan, usage) = plant(row["path"].as_array().unwrap());
        let all = rebuild(plan.tree(), |node| usage[node]);
        let mut windows: Vec<NodeWindow> = plan.path().as_slice().iter().map(|&node| all[node]).collect();
        let released: Vec<u64> = windows.iter().map(|window| window.released.tpm).collect();
        assert_eq!(
            released,
            row["released"].as_array().unwrap().iter().map(number).collect::<Vec<_>>(),
            "{line}"
        );

        let demand = row["demand"].as_i64().unwrap();
        let decision = check_on_path(&plan, &windows, demand).unwrap();
        assert_eq!(decision, check(&plan, &usage, demand).unwrap(), "{line}");
        match &decision {
            Decision::Admitted(_) => assert_eq!(row["verdict"], "admitted", "{line}"),
            Decision::Rejected(it) => {
                refused += 1;
                assert_eq!(it.dimension, Dimension::Tpm, "{line}");
                let expected = (number(&row["verdict"]["node"]), number(&row["verdict"]["held"]));
                assert_eq!((u64::try_from(it.node / 2).unwrap(), it.held_for_siblings), expected, "{line}");
            }
        }

        let change = Adjustment { rpm: 0, tpm: row["change"].as_i64().unwrap() };
        adjust_on_path(&plan, &mut windows, change).unwrap();
        for (window, moved) in windows.iter().zip(row["moved"].as_array().unwrap()) {
            let expected = (number(&moved[0]), number(&moved[1]));
            assert_eq!((window.used.tpm, window.released.tpm), expected, "{line}");
        }
    }
    // A table of admissions alone would show little.
    let rows = TABLE.lines().count();
    assert!(rows > 100 && refused > rows / 5 && refused < rows * 4 / 5, "{refused} of {rows} are refused");
}
