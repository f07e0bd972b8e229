//! Each bad input has one typed answer, and nothing is encoded.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::json;
use spend_queue::{
    Chain, Entry, FieldProblem, MAX_DEPTH, MAX_EVENT_BYTES, MAX_TOKENS, ScopeRef, SpendEvent, Usd,
};

fn now() -> DateTime<Utc> {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

fn scope(id: usize) -> ScopeRef {
    ScopeRef::new("key", format!("k{id}")).unwrap()
}

fn event() -> SpendEvent {
    SpendEvent::new("request-1", "model", vec![scope(0)])
}

/// An event with one change, and the field that must be named.
fn refused(change: impl FnOnce(&mut SpendEvent)) -> (String, FieldProblem) {
    let mut event = event();
    change(&mut event);
    let error = event.encode(now()).expect_err("must be refused");
    assert!(!error.to_string().contains('\n'), "one line: {error}");
    assert!(error.to_string().starts_with(error.field));
    (error.field.to_owned(), error.problem)
}

#[test]
fn identifiers_are_bounded_and_printable_in_every_field() {
    type Set = fn(&mut SpendEvent, String);
    let fields: [(&str, Set); 6] = [
        ("request_id", |e, v| e.request_id = v),
        ("key_id", |e, v| e.key_id = Some(v)),
        ("user_id", |e, v| e.user_id = Some(v)),
        ("team_id", |e, v| e.team_id = Some(v)),
        ("project_id", |e, v| e.project_id = Some(v)),
        ("organization_id", |e, v| e.organization_id = Some(v)),
    ];
    let bad = [
        "".into(),
        "x".repeat(129),
        "x".repeat(1 << 20),
        "a\nb".into(),
        "\0".into(),
        "\u{7f}".into(),
        "\u{85}".into(),
    ];
    let good = [
        "x".repeat(128),
        "{}".into(),
        "a:b".into(),
        "*".into(),
        " padded ".into(),
        "é".into(),
        "e\u{301}".into(),
    ];
    for (name, set) in fields {
        for value in &bad {
            let (field, problem) = refused(|event| set(event, value.clone()));
            assert_eq!(field, name);
            assert!(matches!(problem, FieldProblem::Text(_)));
        }
        for value in &good {
            let mut event = event();
            set(&mut event, value.clone());
            assert!(event.encode(now()).is_ok(), "{name} = {value:?}");
        }
    }
}

#[test]
fn names_may_be_empty_but_not_the_model() {
    assert_eq!(refused(|e| e.model.clear()).0, "model");
    for set in [
        (|e, v| e.model = v) as fn(&mut SpendEvent, String),
        |e, v| e.provider = v,
        |e, v| e.call_type = v,
        |e, v| e.status = v,
        |e, v| e.session_id = Some(v),
    ] {
        for value in ["x".repeat(257), "a\0".into(), "a\r\nb".into()] {
            assert!(matches!(refused(|event| set(event, value)).1, FieldProblem::Text(_)));
        }
    }
}

#[test]
fn an_event_charges_one_to_sixteen_scopes_and_none_twice() {
    assert_eq!(refused(|e| e.scopes.clear()).1, FieldProblem::NoScope);
    assert_eq!(refused(|e| e.scopes = (0..17).map(scope).collect()).1, FieldProblem::TooManyScopes(17));
    assert_eq!(
        refused(|e| e.scopes = vec![scope(1), scope(2), scope(1)]).1,
        FieldProblem::DuplicateScope(scope(1))
    );
    let mut most = event();
    most.scopes = (0..16).map(scope).collect();
    assert!(most.encode(now()).is_ok());
}

#[test]
fn token_counts_have_a_bound() {
    for set in [
        (|e, v| e.prompt_tokens = v) as fn(&mut SpendEvent, u64),
        |e, v| e.completion_tokens = v,
        |e, v| e.cached_tokens = v,
        |e, v| e.time_to_first_token_ms = Some(v),
    ] {
        let mut most = event();
        set(&mut most, MAX_TOKENS);
        assert!(most.encode(now()).is_ok());
        for value in [MAX_TOKENS + 1, u64::MAX] {
            assert_eq!(refused(|event| set(event, value)).1, FieldProblem::TooMany(value));
        }
    }
}

#[test]
fn a_cost_is_not_negative_and_fits_one_counter() {
    let largest = Usd::from_picos(i64::MAX.into());
    let above = Usd::from_picos(i128::from(i64::MAX) + 1);
    assert_eq!(refused(|e| e.cost = Some(Usd::from_picos(-1))).1, FieldProblem::Negative);
    for cost in [above, Usd::from_picos(i128::MAX)] {
        assert_eq!(refused(|e| e.cost = Some(cost)).1, FieldProblem::TooExpensive);
    }
    for cost in [None, Some(Usd::ZERO), Some(largest)] {
        assert!(SpendEvent { cost, ..event() }.encode(now()).is_ok());
    }
}

#[test]
fn a_time_more_than_a_day_ahead_is_refused() {
    let day = TimeDelta::days(1);
    let tick = TimeDelta::microseconds(1);
    for set in
        [(|e, t| e.started_at = Some(t)) as fn(&mut SpendEvent, DateTime<Utc>), |e, t| e.ended_at = Some(t)]
    {
        let mut edge = event();
        set(&mut edge, now() + day);
        assert!(edge.encode(now()).is_ok());
        let (_, problem) = refused(|event| set(event, now() + day + tick));
        assert!(matches!(problem, FieldProblem::InTheFuture { .. }));
        for year in ["1969-12-31T23:59:59Z", "-0001-01-01T00:00:00Z"] {
            assert_eq!(refused(|event| set(event, year.parse().unwrap())).1, FieldProblem::YearOutOfRange);
        }
    }
}

#[test]
fn nul_is_found_wherever_it_hides() {
    for value in [json!("a\0"), json!(["x", ["\0"]]), json!({"a": {"b\0": 1}}), json!([{"a": [{"b": "\0"}]}])]
    {
        assert_eq!(refused(|e| drop(e.metadata.insert("m".into(), value.clone()))).1, FieldProblem::Nul);
        assert_eq!(refused(|e| drop(e.extra.insert("x".into(), value.clone()))).1, FieldProblem::Nul);
    }
    assert_eq!(refused(|e| drop(e.metadata.insert("\0".into(), json!(1)))).1, FieldProblem::Nul);
}

#[test]
fn an_extra_field_cannot_pose_as_one_of_the_entry() {
    let whole = SpendEvent {
        key_id: Some("k".into()),
        user_id: Some("u".into()),
        team_id: Some("t".into()),
        project_id: Some("p".into()),
        organization_id: Some("o".into()),
        cost: Some(Usd::ZERO),
        started_at: Some(now()),
        ended_at: Some(now()),
        time_to_first_token_ms: Some(1),
        session_id: Some("s".into()),
        metadata: [("m".to_owned(), json!(1))].into(),
        ..event()
    };
    let whole = serde_json::to_value(whole).unwrap();
    let own = whole.as_object().unwrap().keys().map(String::as_str);
    for name in own.chain(["seq", "chain", "queued", "format", "spend"]) {
        let (field, problem) = refused(|e| drop(e.extra.insert(name.into(), json!(1))));
        assert_eq!((field.as_str(), problem), ("extra", FieldProblem::Reserved(name.into())));
    }
}

#[test]
fn lists_and_objects_are_inside_one_another_to_a_bound() {
    let nested = |depth: usize, wrap: fn(serde_json::Value) -> serde_json::Value| {
        (0..depth).fold(json!(1), |inner, _| wrap(inner))
    };
    for wrap in [
        (|inner| json!([inner])) as fn(serde_json::Value) -> serde_json::Value,
        |inner| json!({ "a": inner }),
    ] {
        let mut deepest = event();
        deepest.metadata.insert("m".into(), nested(MAX_DEPTH, wrap));
        deepest.extra.insert("x".into(), nested(MAX_DEPTH, wrap));
        let encoded = deepest.encode(now()).unwrap();
        let entry = encoded.entry(1, encoded.chain_after(Chain::GENESIS, 1));
        assert_eq!(Entry::decode(entry.into_bytes()).unwrap().event, deepest);
        for depth in [MAX_DEPTH + 1, 127, 128, 500] {
            let value = nested(depth, wrap);
            assert_eq!(
                refused(|e| drop(e.metadata.insert("m".into(), value.clone()))).1,
                FieldProblem::TooDeep
            );
            assert_eq!(refused(|e| drop(e.extra.insert("x".into(), value))).1, FieldProblem::TooDeep);
        }
    }
}

#[test]
fn an_event_above_64_kib_is_refused() {
    let filled = |e: &mut SpendEvent, bytes| drop(e.metadata.insert("m".into(), json!("x".repeat(bytes))));
    let (field, problem) = refused(|e| filled(e, MAX_EVENT_BYTES));
    assert_eq!(field, "event");
    let FieldProblem::TooLarge(bytes) = problem else { panic!("{problem:?}") };
    let room = 2 * MAX_EVENT_BYTES - bytes;
    assert_eq!(refused(|e| filled(e, room + 1)).1, FieldProblem::TooLarge(MAX_EVENT_BYTES + 1));
    let mut fits = event();
    filled(&mut fits, room);
    assert_eq!(fits.encode(now()).unwrap().request_id(), "request-1");
}
