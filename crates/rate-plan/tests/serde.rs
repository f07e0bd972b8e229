//! The serialised form of the plain data, which is judged again when it is read.

use std::sync::Arc;

use rate_plan::{Admitted, Decision, Dimension, Headroom, Limits, Node, RateTree, Scope, Usage, admit};
use serde_json::{from_str, json, to_value};

#[test]
fn a_node_reads_back_as_it_was_written() {
    let node = Node {
        scope: Scope::new("team", "t").unwrap(),
        parent: Some(0),
        limits: Limits { rpm: Some(5), tpm: None },
    };
    let written = to_value(&node).unwrap();
    let expected =
        json!({"scope": {"kind": "team", "id": "t"}, "parent": 0, "limits": {"rpm": 5, "tpm": null}});
    assert_eq!(written, expected);
    assert_eq!(serde_json::from_value::<Node>(written).unwrap(), node);
}

#[test]
fn an_illegal_scope_cannot_be_read() {
    let error = from_str::<Scope>(r#"{"kind": "team", "id": ""}"#).unwrap_err().to_string();
    assert!(error.starts_with("scope id is empty"), "{error}");
}

#[test]
fn an_absent_limit_is_shared_and_a_misspelt_one_is_refused() {
    assert_eq!(from_str::<Limits>("{}").unwrap(), Limits::SHARED);
    assert!(from_str::<Limits>(r#"{"rmp": 5}"#).is_err());
}

#[test]
fn a_decision_reads_back_as_it_was_written() {
    let limits = Limits { rpm: Some(0), tpm: None };
    let tree = Arc::new(RateTree::flat(vec![(Scope::new("key", "k").unwrap(), limits)]).unwrap());
    let decision = admit(&tree.plan(0).unwrap(), &mut [Usage::default()], 0).unwrap();
    let written = to_value(&decision).unwrap();
    assert_eq!(written["rejected"]["dimension"], to_value(Dimension::Rpm).unwrap());
    assert_eq!(serde_json::from_value::<Decision>(written).unwrap(), decision);

    let headroom = Headroom { node: 0, limit: 5, remaining: 4 };
    let admitted = Admitted { usage: vec![Usage { rpm: 1, tpm: 7 }], rpm: Some(headroom), tpm: None };
    let decision = Decision::Admitted(admitted);
    let written = to_value(&decision).unwrap();
    let rpm = json!({"node": 0, "limit": 5, "remaining": 4});
    assert_eq!(written, json!({"admitted": {"usage": [{"rpm": 1, "tpm": 7}], "rpm": rpm, "tpm": null}}));
    assert_eq!(serde_json::from_value::<Decision>(written).unwrap(), decision);
}
