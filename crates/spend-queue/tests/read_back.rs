//! Whatever can be queued can be read back: an entry that its own queue cannot read would stop its shard.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use proptest::prelude::*;
use serde_json::Value;
use spend_queue::{Chain, Entry, ScopeRef, SpendEvent, Usd};

fn now() -> DateTime<Utc> {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

/// Any text, those that look like JSON or like a part of an entry among them.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => ".{0,20}",
        2 => "[\\x01-\\x1f\"\\\\{}\\[\\]:,/ ]{0,12}",
        1 => Just("\",\"spend_pusd\":1,\"x\":\"".to_owned()),
        1 => Just("\u{1f}\u{7f}\u{85}\u{2028}\u{feff}\u{10ffff}".to_owned()),
    ]
}

/// A text that is mostly a legal identifier.
fn id() -> impl Strategy<Value = String> {
    prop_oneof![40 => "[a-zA-Z0-9 \"\\\\/{}\\[\\]:,%é\u{2028}\u{10ffff}]{1,12}", 1 => text()]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    let tree = leaf.prop_recursive(6, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(text(), inner, 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    });
    let wrapped = |value: Value, depth: usize| (0..depth).fold(value, |inner, _| Value::Array(vec![inner]));
    (tree, prop_oneof![20 => Just(0_usize), 1 => 40..200_usize])
        .prop_map(move |(value, depth)| wrapped(value, depth))
}

/// Names of fields, those that an entry has itself among them.
fn fields() -> impl Strategy<Value = BTreeMap<String, Value>> {
    let own = prop::sample::select(vec![
        "seq",
        "chain",
        "queued",
        "format",
        "spend",
        "spend_pusd",
        "request_id",
        "scopes",
        "model",
        "start",
        "end",
        "metadata",
        "extra",
        "cost",
        "started_at",
        "key_id",
        "cache_hit",
        "session_id",
        "later",
    ]);
    let name = prop_oneof![3 => text(), 1 => own.prop_map(str::to_owned)];
    prop_oneof![Just(BTreeMap::new()), prop::collection::btree_map(name, value(), 0..3)]
}

prop_compose! {
    fn event()(
        id in id(), model in id(), session in prop::option::of(id()), status in id(), user in prop::option::of(id()),
        scopes in prop::collection::vec((id(), id()), 1..4),
        tokens in any::<u64>().prop_map(|n| n >> 24),
        picos in prop::option::of(prop_oneof![Just(0), 1..1_000_i128, i128::from(i64::MAX) - 1..=i128::from(i64::MAX)]),
        micros in prop::option::of(-90_000_000_000_i64..90_000_000_000),
        metadata in fields(), extra in fields(),
    ) -> SpendEvent {
        let scopes = scopes.into_iter().filter_map(|(kind, id)| ScopeRef::new(kind, id).ok()).collect();
        let mut event = SpendEvent::new(id, model, scopes);
        (event.session_id, event.status, event.user_id) = (session, status, user);
        (event.prompt_tokens, event.completion_tokens) = (tokens, tokens / 2);
        event.cost = picos.map(Usd::from_picos);
        event.started_at = micros.map(|micros| now() + TimeDelta::microseconds(micros));
        event.ended_at = event.started_at;
        (event.metadata, event.extra) = (metadata, extra);
        event
    }
}

#[test]
fn what_encodes_decodes_to_the_same_bill() {
    let (mut queued, mut refused) = (0, 0);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 20_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let counts = std::cell::RefCell::new((&mut queued, &mut refused));
    runner
        .run(&event(), |event| {
            let Ok(encoded) = event.encode(now()) else {
                *counts.borrow_mut().1 += 1;
                return Ok(());
            };
            *counts.borrow_mut().0 += 1;
            let raw = encoded.entry(1, encoded.chain_after(Chain::GENESIS, 1)).into_bytes();
            let entry = Entry::decode(raw);
            prop_assert!(entry.is_ok(), "{:?}", entry);
            let entry = entry.unwrap();
            prop_assert_eq!(entry.payload_check(), encoded.payload_check());
            prop_assert_eq!(entry.counters(), &event.scopes[..]);
            prop_assert_eq!(entry.event.cost, event.cost);
            prop_assert_eq!(&entry.event.request_id, &event.request_id);
            prop_assert_eq!(entry.event.started_at, event.started_at);
            prop_assert!(entry.event.extra.keys().eq(event.extra.keys()));
            Ok(())
        })
        .unwrap();
    println!("{queued} events read back, {refused} refused");
    assert!(queued > 2_000, "{queued}");
}
