//! Decides recorded cases with both algorithms: one JSON object a line, with the nodes, the steps and the answers that are wanted.
//!
//! `tests/data/rules.jsonl` shows one rule a case, worked out by hand (`why` says how). A larger file of the same
//! format is decided too when it lies beside the checkout.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rate_plan::{Limits, Node, RatePlan, RateTree, Scope, Usage, Window, admit};
use serde_json::Value;

#[test]
fn every_recorded_case_is_decided_as_wanted() {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = vec![crate_dir.join("tests/data/rules.jsonl")];
    files.extend(Some(crate_dir.join("../../../shared/cases/rate-plan.jsonl")).filter(|file| file.exists()));
    let failures: Vec<String> = files.iter().flat_map(failures_in).collect();
    assert!(failures.is_empty(), "{} cases differ:\n{}", failures.len(), failures.join("\n"));
}

fn failures_in(file: &PathBuf) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap();
    let cases: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(!cases.is_empty(), "{} holds no case", file.display());
    cases.iter().filter_map(failure).collect()
}

/// What differs in a case, if anything does.
fn failure(case: &Value) -> Option<String> {
    let want: Vec<&str> = array(&case["want"]).iter().map(|it| it.as_str().unwrap()).collect();
    let got = decide(case);
    if got.len() != want.len() {
        return Some(format!("{}: {} answers, {} wanted", case["name"], got.len(), want.len()));
    }
    let at = got.iter().zip(&want).position(|(got, want)| got != want)?;
    Some(format!("{}: answer {at} is {:?}, wanted {:?}", case["name"], got[at], want[at]))
}

fn decide(case: &Value) -> Vec<String> {
    let mut tree = Arc::new(RateTree::new(array(&case["nodes"]).iter().map(node).collect()).unwrap());
    let mut minutes: HashMap<u64, (Vec<Usage>, Window)> = HashMap::new();
    let mut answers = Vec::new();
    for step in array(&case["steps"]) {
        if let Some(change) = step.get("limits") {
            tree = Arc::new(tree.with_limits(index(&change["node"]), limits(change)).unwrap());
            minutes.values_mut().for_each(|(_, window)| window.rebuild(Arc::clone(&tree)));
            continue;
        }
        let request = &step["admit"];
        let (plan, estimate) = (plan(&tree, request), request["est"].as_i64().unwrap());
        let fresh = || (vec![Usage::default(); tree.len()], Window::new(Arc::clone(&tree)));
        let (usage, window) = minutes.entry(request["minute"].as_u64().unwrap()).or_insert_with(fresh);
        let decision = admit(&plan, usage, estimate).unwrap();
        assert_eq!(
            window.admit(&plan, estimate).unwrap(),
            decision,
            "{}: the algorithms differ",
            case["name"]
        );
        answers.push(decision.rejection().map_or_else(|| "ok".to_owned(), ToString::to_string));
    }
    answers
}

fn plan(tree: &Arc<RateTree>, request: &Value) -> RatePlan {
    let plan = match request.get("path") {
        Some(path) => tree.plan_of(array(path).iter().map(index).collect()),
        None => tree.plan(index(&request["node"])),
    };
    plan.unwrap()
}

fn node(value: &Value) -> Node {
    let text = |field: &str| value[field].as_str().unwrap();
    let parent = (!value["parent"].is_null()).then(|| index(&value["parent"]));
    Node { scope: Scope::new(text("kind"), text("id")).unwrap(), parent, limits: limits(value) }
}

fn limits(value: &Value) -> Limits {
    let limit = |field: &str| (!value[field].is_null()).then(|| value[field].as_u64().unwrap());
    Limits { rpm: limit("rpm"), tpm: limit("tpm") }
}

fn index(value: &Value) -> usize {
    usize::try_from(value.as_u64().unwrap()).unwrap()
}

fn array(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}
