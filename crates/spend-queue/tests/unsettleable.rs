//! One entry holds up nothing but itself, unless its chain is broken.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use chrono::{DateTime, Utc};
use proptest::prelude::*;
use spend_queue::{Chain, Index, Millis, Peeked, ScopeRef, Shard, ShardCount, SpendEvent, Start, Usd};

const ENTRIES: usize = 10;

fn now() -> DateTime<Utc> {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

fn shard() -> Shard {
    ShardCount::ONE.shard_of("any")
}

fn organization() -> ScopeRef {
    ScopeRef::new("organization", "o").unwrap()
}

/// The body that an enqueue puts behind its link, without the opening brace.
fn body(n: usize) -> String {
    let mut event =
        SpendEvent::new(format!("r-{n}"), "m", vec![organization(), ScopeRef::new("user", "u").unwrap()]);
    event.cost = Some(Usd::from_picos(5));
    event.user_id = Some("u".into());
    event.status = "ok".into();
    event.started_at = Some(now());
    event.ended_at = Some(now());
    event.time_to_first_token_ms = Some(7);
    event.metadata.insert("tag".into(), "value".into());
    event.encode(now()).unwrap().body().to_owned()
}

/// A list of entries with these bodies and a sound chain.
fn list(bodies: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut chain = Chain::GENESIS;
    let raw = (1..).zip(bodies).map(|(seq, body)| {
        let queued = Millis::of(now());
        chain = chain.next(seq, queued, body);
        let mut raw = format!("{{\"seq\":{seq},\"chain\":\"{chain}\",\"queued\":{queued},").into_bytes();
        raw.extend(body);
        raw
    });
    raw.collect()
}

/// Ten entries of which one has another body.
fn with(at: usize, other: Vec<u8>) -> Peeked {
    let mut bodies: Vec<_> = (0..ENTRIES).map(|n| body(n).into_bytes()).collect();
    bodies[at] = other;
    Peeked::read(shard(), list(&bodies), 10, Index::Proven)
}

fn charged(peeked: &Peeked, scope: &str) -> i128 {
    peeked.receipt().unwrap().charges.get(&scope.parse().unwrap()).map_or(0, |charge| charge.amount.picos())
}

#[test]
fn what_can_be_read_and_not_stored_is_an_entry_with_a_problem_and_takes_back_exactly_its_charge() {
    let (long, deep) = ("x".repeat(129), format!("{}1{}", "[".repeat(70), "]".repeat(70)));
    let changes = [
        (r#""model":"m""#, r#""model":"m\u0000""#.to_owned()),
        (r#""model":"m""#, r#""model":"\ud800""#.into()),
        (r#""model":"m""#, r#""model":"""#.into()),
        (r#""model":"m""#, format!(r#""model":"{}""#, "x".repeat(257))),
        (r#""model":"m""#, r#""model":7"#.into()),
        (r#""model":"m""#, r#""model":"m","model":"n""#.into()),
        (r#""model":"m","#, String::new()),
        (r#""user_id":"u""#, r#""user_id":"\u0000""#.into()),
        (r#""user_id":"u""#, format!(r#""user_id":"{long}""#)),
        (r#""status":"ok""#, r#""status":"\u0000""#.into()),
        (r#""status":"ok""#, r#""status":"a\nb""#.into()),
        (r#""request_id":"r-2""#, r#""request_id":"r\u0000""#.into()),
        (r#""request_id":"r-2""#, r#""request_id":"\udfff""#.into()),
        (r#""request_id":"r-2""#, r#""request_id":"""#.into()),
        (r#""request_id":"r-2""#, format!(r#""request_id":"{long}""#)),
        (r#""prompt_tokens":0"#, r#""prompt_tokens":-1"#.into()),
        (r#""prompt_tokens":0"#, r#""prompt_tokens":1.5"#.into()),
        (r#""prompt_tokens":0"#, r#""prompt_tokens":1099511627777"#.into()),
        (r#""prompt_tokens":0"#, r#""prompt_tokens":9223372036854775808"#.into()),
        (r#""prompt_tokens":0"#, r#""prompt_tokens":1e400"#.into()),
        (r#""time_to_first_token_ms":7"#, r#""time_to_first_token_ms":99999999999999999999"#.into()),
        (r#""end":"2026-03-01T12:00:00.000000Z""#, r#""end":"yesterday""#.into()),
        (r#""end":"2026-03-01T12:00:00.000000Z""#, r#""end":"0001-01-01T00:00:00Z""#.into()),
        (r#""tag":"value""#, r#""tag":"\u0000""#.into()),
        (r#""tag":"value""#, r#""t\u0000ag":"value""#.into()),
        (r#""tag":"value""#, format!(r#""tag":{deep}"#)),
        (r#""format":2"#, r#""format":2,"new\u0000":1"#.into()),
        (r#""format":2"#, r#""format":2,"chain":1"#.into()),
    ];
    for (part, other) in changes {
        let whole = body(2);
        assert!(whole.contains(part), "{part} in {whole}");
        let peeked = with(2, whole.replacen(part, &other, 1).into_bytes());
        assert_eq!((peeked.entries.len(), &peeked.stop), (ENTRIES, &None), "{other}");
        let problems = peeked.entries.iter().filter(|entry| entry.problem().is_some()).count();
        assert_eq!((problems, peeked.entries[2].problem().is_some()), (1, true), "{other}");
        assert_eq!((charged(&peeked, "organization/o"), charged(&peeked, "user/u")), (50, 50), "{other}");
        let starts = peeked.receipt().unwrap().starts;
        assert_eq!(starts[&Start::of(&organization(), Millis::of(now())).unwrap()], Usd::from_picos(50));
    }
    let long = format!("team/{long}");
    let peeked = with(2, body(2).replacen("user/u", &long, 1).into_bytes());
    assert_eq!((peeked.entries.len(), charged(&peeked, "user/u")), (ENTRIES, 45));
    let named = peeked.receipt().unwrap().charges.into_keys().map(|scope| scope.to_string());
    assert!(named.into_iter().any(|scope| scope == long), "a counter is named as it was");
}

#[test]
fn what_cannot_be_read_at_all_is_an_entry_too_where_the_one_before_it_proves_it_whole() {
    for other in ["", "x", "}", "\"format\":2", "\"format\":2,\"scopes\":[\"team/\\u0000\"]}"] {
        let peeked = with(2, other.as_bytes().to_vec());
        assert_eq!((peeked.entries.len(), &peeked.stop), (ENTRIES, &None), "{other}");
        assert!(peeked.entries[2].problem().is_some());
        assert_eq!(charged(&peeked, "organization/o"), 45);
        assert_eq!(with(0, other.as_bytes().to_vec()).entries.len(), ENTRIES, "the first entry of all");
    }
    assert_eq!(with(2, vec![0xff, 0xfe]).entries.len(), ENTRIES);
    let newer = with(2, body(2).replacen("\"format\":2", "\"format\":3", 1).into_bytes());
    assert_eq!(newer.entries.len(), 2, "what a newer release wrote waits for it");
}

/// A change of one body that leaves its link sound.
#[derive(Debug, Clone)]
enum Mutation {
    Replace(usize, u8),
    Remove(usize, usize),
    Insert(usize, String),
    Any(Vec<u8>),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let snippet = prop_oneof![
        Just("\\u0000".to_owned()),
        Just("\\ud800".to_owned()),
        Just("-".to_owned()),
        Just("9".repeat(30)),
        Just("{".to_owned()),
        Just("\"".to_owned()),
        Just("null".to_owned()),
        "\\PC{0,20}",
    ];
    prop_oneof![
        (0_usize..400, any::<u8>()).prop_map(|(at, byte)| Mutation::Replace(at, byte)),
        (0_usize..400, 1_usize..40).prop_map(|(at, count)| Mutation::Remove(at, count)),
        (0_usize..400, snippet).prop_map(|(at, text)| Mutation::Insert(at, text)),
        prop::collection::vec(any::<u8>(), 0..60).prop_map(Mutation::Any),
    ]
}

fn mutated(mut body: Vec<u8>, mutation: Mutation) -> Vec<u8> {
    let place = |at: usize, length: usize| at % (length + 1);
    match mutation {
        Mutation::Replace(at, byte) => {
            let at = at % body.len();
            body[at] = byte;
        }
        Mutation::Remove(at, count) => {
            let at = place(at, body.len());
            body.drain(at..(at + count).min(body.len()));
        }
        Mutation::Insert(at, text) => {
            let at = place(at, body.len());
            body.splice(at..at, text.into_bytes());
        }
        Mutation::Any(other) => body = other,
    }
    body
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_one_entry_holds_all_others_are_read_and_taken_back(at in 0..ENTRIES, change in mutation()) {
        let other = mutated(body(at).into_bytes(), change);
        let newer = String::from_utf8_lossy(&other).contains("\"format\":")
            && !String::from_utf8_lossy(&other).contains("\"format\":2,");
        prop_assume!(!newer);
        let peeked = with(at, other);
        prop_assert_eq!((peeked.entries.len(), &peeked.stop), (ENTRIES, &None));
        let sound = peeked.entries.iter().filter(|entry| entry.problem().is_none()).count();
        prop_assert!(sound >= ENTRIES - 1);
        let receipt = peeked.receipt().unwrap();
        prop_assert!(receipt.charges[&organization()].amount >= Usd::from_picos(45));
    }
}
