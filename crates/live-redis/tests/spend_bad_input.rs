//! What the queue refuses (bad input, one answer each): a typed error that names field, class and bound, and Redis is
//! byte for byte what it was.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod common;

use chrono::{DateTime, TimeDelta, Utc};
use common::{Hot, event, limit, now, shard, team};
use live_redis::{InputError, LiveRedisError, OperatorNote};
use serde_json::{Value, json};
use spend_queue::{
    BatchLimit, EventError, MAX_BATCH, MAX_TOKENS, PendingQuery, PendingSpend, QueueError, ScopeRef,
    SpendEvent, SpendQueue, Usd,
};

/// A refused event: what it is, the field that is named, and the words for class and bound.
type Case = (String, SpendEvent, &'static str, &'static str);

fn good() -> SpendEvent {
    SpendEvent::new("request", "model", vec![team()])
}

fn case(field: &'static str, words: &'static str, what: &str, change: impl FnOnce(&mut SpendEvent)) -> Case {
    let mut event = good();
    change(&mut event);
    (format!("{field}: {what}"), event, field, words)
}

/// Texts that no identifier may be, and the words for it.
fn bad_ids() -> Vec<(String, &'static str)> {
    let mut ids = vec![
        (String::new(), "is empty"),
        ("x".repeat(129), "has 129 bytes, at most 128 are allowed"),
        ("ü".repeat(65), "has 130 bytes, at most 128 are allowed"),
        ("x".repeat(1 << 20), "has 1048576 bytes, at most 128 are allowed"),
    ];
    let controls = [
        "\n",
        "\r\n",
        "\0",
        "\t",
        "\u{8}",
        "\u{b}",
        "\u{1b}[2J",
        "\u{1f}",
        "\u{7f}",
        "\u{80}",
        "\u{85}",
        "\u{9f}",
    ];
    ids.extend(controls.map(|control| (format!("ab{control}"), "has a control character at byte 2")));
    ids
}

type SetText = fn(&mut SpendEvent, String);
type SetCount = fn(&mut SpendEvent, u64);
type SetTime = fn(&mut SpendEvent, DateTime<Utc>);

fn texts() -> Vec<Case> {
    let ids: [(&str, SetText); 6] = [
        ("request_id", |e, v| e.request_id = v),
        ("key_id", |e, v| e.key_id = Some(v)),
        ("user_id", |e, v| e.user_id = Some(v)),
        ("team_id", |e, v| e.team_id = Some(v)),
        ("project_id", |e, v| e.project_id = Some(v)),
        ("organization_id", |e, v| e.organization_id = Some(v)),
    ];
    let names: [(&str, SetText); 5] = [
        ("model", |e, v| e.model = v),
        ("provider", |e, v| e.provider = v),
        ("call_type", |e, v| e.call_type = v),
        ("status", |e, v| e.status = v),
        ("session_id", |e, v| e.session_id = Some(v)),
    ];
    let mut cases = vec![case("model", "is empty", "empty", |e| e.model.clear())];
    for (field, set) in ids {
        for (text, words) in bad_ids() {
            cases.push(case(field, words, words, |event| set(event, text)));
        }
    }
    for (field, set) in names {
        for (text, words) in [
            ("x".repeat(257), "has 257 bytes, at most 256 are allowed"),
            ("x".repeat(1 << 20), "has 1048576 bytes, at most 256 are allowed"),
            ("a\n".into(), "has a control character at byte 1"),
            ("\0".into(), "has a control character at byte 0"),
        ] {
            cases.push(case(field, words, words, |event| set(event, text)));
        }
    }
    cases
}

fn scopes() -> Vec<Case> {
    let scope = |n: usize| ScopeRef::new("key", n.to_string()).unwrap();
    let many = |count: usize| (0..count).map(scope).collect::<Vec<_>>();
    let twice = |places: &[usize]| places.iter().map(|n| scope(*n)).collect::<Vec<_>>();
    let mut cases = vec![case("scopes", "at least one must be charged", "none", |e| e.scopes.clear())];
    for (count, words) in [
        (17, "names 17 scopes, at most 16 are allowed"),
        (1_000, "names 1000 scopes, at most 16 are allowed"),
    ] {
        cases.push(case("scopes", words, words, |e| e.scopes = many(count)));
    }
    for places in [&[1, 1][..], &[1, 2, 3, 1], &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 14]] {
        cases.push(case("scopes", "twice", &format!("{places:?}"), |e| e.scopes = twice(places)));
    }
    cases
}

fn amounts() -> Vec<Case> {
    let counts: [(&str, SetCount); 4] = [
        ("prompt_tokens", |e, v| e.prompt_tokens = v),
        ("completion_tokens", |e, v| e.completion_tokens = v),
        ("cached_tokens", |e, v| e.cached_tokens = v),
        ("time_to_first_token_ms", |e, v| e.time_to_first_token_ms = Some(v)),
    ];
    let mut cases = Vec::new();
    for (field, set) in counts {
        for value in [MAX_TOKENS + 1, 1 << 53, u64::MAX] {
            let words = "at most 1099511627776 is allowed";
            cases.push(case(field, words, &value.to_string(), |event| set(event, value)));
        }
    }
    for (picos, words) in [
        (-1, "is negative"),
        (-1_000_000_000_000, "is negative"),
        (i64::MIN.into(), "is negative"),
        (i128::MIN, "is negative"),
        (i128::from(i64::MAX) + 1, "is above 9223372.036854775807 USD"),
        (i128::from(u64::MAX), "is above 9223372.036854775807 USD"),
        (i128::MAX, "is above 9223372.036854775807 USD"),
    ] {
        cases
            .push(case("cost", words, &picos.to_string(), |event| event.cost = Some(Usd::from_picos(picos))));
    }
    cases
}

fn times() -> Vec<Case> {
    let fields: [(&str, SetTime); 2] =
        [("started_at", |e, t| e.started_at = Some(t)), ("ended_at", |e, t| e.ended_at = Some(t))];
    let at = |text: &str| text.parse::<DateTime<Utc>>().unwrap();
    let mut cases = Vec::new();
    for (field, set) in fields {
        for (time, words) in [
            (now() + TimeDelta::days(1) + TimeDelta::microseconds(1), "more than a day ahead of 2026-03-01"),
            (now() + TimeDelta::days(2), "more than a day ahead of 2026-03-01"),
            (at("9999-12-31T23:59:59Z"), "more than a day ahead of 2026-03-01"),
            (at("1969-12-31T23:59:59.999Z"), "is outside the years 1970 to 9999"),
            (DateTime::<Utc>::MIN_UTC, "is outside the years 1970 to 9999"),
            (DateTime::<Utc>::MAX_UTC, "is outside the years 1970 to 9999"),
        ] {
            cases.push(case(field, words, &time.to_string(), |event| set(event, time)));
        }
    }
    cases
}

/// `depth` lists or objects inside one another.
fn nested(depth: usize, wrap: fn(Value) -> Value) -> Value {
    (0..depth).fold(json!(1), |inner, _| wrap(inner))
}

fn metadata() -> Vec<Case> {
    type Insert = fn(&mut SpendEvent, &str, Value);
    let places: [(&str, Insert); 2] = [
        ("metadata", |e, name, value| drop(e.metadata.insert(name.into(), value))),
        ("extra", |e, name, value| drop(e.extra.insert(name.into(), value))),
    ];
    let mut cases = Vec::new();
    for (field, insert) in places {
        let mut add = |words, name: &str, value: Value| {
            let what: String = format!("{name} {value}").chars().take(60).collect();
            cases.push(case(field, words, &what, |event| insert(event, name, value)));
        };
        for hidden in
            [json!("a\0"), json!(["x", ["\0"]]), json!({"a": {"b\0": 1}}), json!([{"a": [{"b": "\0"}]}])]
        {
            add("holds a NUL character", "m", hidden);
        }
        add("holds a NUL character", "\0", json!(1));
        for depth in [65, 128, 1_000] {
            let words = "has more than 64 lists and objects inside one another";
            add(words, "m", nested(depth, |inner| json!([inner])));
            add(words, "m", nested(depth, |inner| json!({ "a": inner })));
        }
    }
    let whole = {
        let mut event = good();
        event.key_id = Some("k".into());
        event.user_id = Some("u".into());
        event.team_id = Some("t".into());
        event.project_id = Some("p".into());
        event.organization_id = Some("o".into());
        event.cost = Some(Usd::ZERO);
        (event.started_at, event.ended_at) = (Some(now()), Some(now()));
        (event.time_to_first_token_ms, event.session_id) = (Some(1), Some("s".into()));
        event.metadata.insert("m".into(), json!(1));
        serde_json::to_value(event).unwrap()
    };
    let names = whole.as_object().unwrap().keys().map(String::as_str);
    for name in names.chain(["seq", "chain", "queued", "format", "spend"]) {
        cases.push(case("extra", "holds the reserved name", name, |e| {
            drop(e.extra.insert(name.into(), json!(1)));
        }));
    }
    for bytes in [65_536, 70_000, 1 << 20] {
        let words = "at most 65536 are allowed";
        cases.push(case("event", words, &bytes.to_string(), |e| {
            drop(e.metadata.insert("m".into(), json!("x".repeat(bytes))));
        }));
    }
    cases
}

#[tokio::test]
async fn a_bad_event_is_named_and_not_one_byte_of_redis_changes() {
    let hot = Hot::private().await;
    hot.redis.enqueue(&event("there before", 5)).await.unwrap();
    let cases = [texts(), scopes(), amounts(), times(), metadata()].concat();
    for (what, event, field, words) in &cases {
        let error = hot.unchanged(hot.redis.enqueue_spend(event, now())).await;
        let LiveRedisError::Event(EventError { field: named, .. }) = &error else {
            panic!("{what}: {error}")
        };
        assert_eq!(named, field, "{what}");
        let text = error.to_string();
        assert!(text.contains(words) && text.contains(field), "{what}: {text}");
        assert!(
            !error.is_transient() && text.len() < 300 && !text.chars().any(char::is_control),
            "{what}: {text}"
        );
    }
    println!("{} events tried", cases.len());
    assert!(cases.len() >= 200, "{}", cases.len());
}

#[tokio::test]
async fn a_bad_argument_is_named_and_not_one_byte_of_redis_changes() {
    let hot = Hot::private().await;
    for id in ["a", "b"] {
        hot.redis.enqueue(&event(id, 5)).await.unwrap();
    }
    let mut tried = 0;
    let mut check = |error: LiveRedisError, field: &str, words: &str| {
        tried += 1;
        assert!(matches!(error, LiveRedisError::Input(_)) && !error.is_transient(), "{error}");
        let text = error.to_string();
        assert!(text.contains(field) && text.contains(words) && text.len() < 300, "{text}");
    };
    for (id, words) in bad_ids() {
        check(hot.unchanged(hot.redis.pending_key(&id)).await, "key_id", words);
        check(hot.unchanged(hot.redis.pending_since(&id, now())).await, "organization_id", words);
        let good = PendingQuery::Key("k".into());
        let queries = [good.clone(), PendingQuery::Key(id.clone())];
        check(hot.unchanged(hot.redis.pending_all(&queries)).await, "key_id", words);
        let queries = [good, PendingQuery::Organization { id: id.clone(), since: now() }];
        check(hot.unchanged(hot.redis.pending_all(&queries)).await, "organization_id", words);
        let note = OperatorNote { reason: id, at: now() };
        let head = &hot.list().await[0];
        check(hot.unchanged(hot.redis.quarantine(shard(), head, &note)).await, "reason", words);
    }
    let receipt = hot.redis.peek(shard(), limit(2)).await.unwrap().receipt().unwrap();
    for entries in [0, MAX_BATCH + 1, u32::MAX] {
        let mut receipt = receipt.clone();
        receipt.entries = entries;
        let error = hot.unchanged(hot.redis.ack(&receipt)).await;
        assert!(matches!(error, LiveRedisError::Input(InputError::Batch { given, .. }) if given == entries));
        check(error, "receipt.entries", "1 to 10000 are possible");
    }
    // One entry that is first and last at once: with no entries asked for, the last one is looked for before the first.
    let one = hot.redis.peek(shard(), limit(1)).await.unwrap().receipt().unwrap();
    hot.redis.ack(&one).await.unwrap();
    let mut none = hot.redis.peek(shard(), limit(1)).await.unwrap().receipt().unwrap();
    none.entries = 0;
    check(hot.unchanged(hot.redis.ack(&none)).await, "receipt.entries", "1 to 10000 are possible");
    println!("{tried} arguments tried");
}

#[test]
fn a_batch_limit_names_its_bound_and_a_scope_its_part() {
    for entries in [0, MAX_BATCH + 1, u32::MAX] {
        let text = BatchLimit::new(entries).unwrap_err().to_string();
        assert_eq!(text, format!("a batch of {entries} asked for, 1 to 10000 are possible"));
    }
    let mut tried = 3;
    for (text, words) in bad_ids() {
        let kind = ScopeRef::new(text.as_str(), "id").unwrap_err().to_string();
        let id = ScopeRef::new("kind", text.as_str()).unwrap_err().to_string();
        assert_eq!((kind, id), (format!("scope kind {words}"), format!("scope id {words}")));
        tried += 2;
    }
    println!("{tried} limits and scopes tried");
}
