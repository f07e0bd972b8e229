//! Events, made of bytes field by field: what a host may fill in.

use arbitrary::{Result, Unstructured};
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::Value;
use spend_queue::{Chain, Entry, MAX_EVENT_BYTES, RequestDigest, ScopeRef, SpendEvent, Usd};

use crate::entry::kept;

/// The longest error: one line that names a field and a bound, and at most a scope or a name.
const MAX_ERROR_BYTES: usize = 2 * MAX_EVENT_BYTES;

/// An event is refused, or its entry reads back as it was, follows in the chain, and no change of it does.
///
/// # Panics
///
/// When that does not hold.
pub fn check(bytes: &[u8]) {
    let mut source = Unstructured::new(bytes);
    let Ok((event, now, seq)) = event(&mut source) else { return };
    let encoded = match event.encode(now) {
        Ok(encoded) => encoded,
        Err(error) => return assert!(error.to_string().len() < MAX_ERROR_BYTES),
    };
    assert_eq!(event.encode(now), Ok(encoded.clone()), "a retry has the same bytes");
    assert!(encoded.body().len() < MAX_EVENT_BYTES);
    assert_eq!(encoded.digest(), RequestDigest::of(&event.request_id));
    let charged: Vec<_> = encoded.charges().map(|(scope, picos)| (scope.clone(), picos)).collect();
    match event.paid() {
        None => assert!(charged.is_empty() && encoded.starts().count() == 0),
        Some(paid) => {
            let each = event.scopes.iter().cloned().map(|scope| (scope, paid.counter().unwrap_or(-1)));
            assert_eq!(charged, each.collect::<Vec<_>>());
        }
    }

    let chain = encoded.chain_after(Chain::GENESIS, seq);
    let raw = encoded.entry(seq, chain);
    let entry = Entry::decode(raw.clone().into_bytes()).expect("what is written can be read");
    assert_eq!(entry.event, kept(event));
    assert_eq!(entry.payload_check(), encoded.payload_check());
    assert!(entry.continues(seq - 1, Chain::GENESIS));
    assert!(!entry.continues(seq, Chain::GENESIS) && !entry.continues(seq - 1, chain));

    // A byte of the body is another: it cannot be read, or it does not follow.
    let mut forged = raw.into_bytes();
    let place = forged.len() - 1 - source.len() % encoded.body().len();
    forged[place] ^= 1;
    if let Ok(forged) = Entry::decode(forged) {
        assert!(!forged.continues(seq - 1, Chain::GENESIS));
        assert_ne!(forged.payload_check(), encoded.payload_check());
    }
}

fn event(source: &mut Unstructured<'_>) -> Result<(SpendEvent, DateTime<Utc>, u64)> {
    let now = DateTime::from_timestamp(source.int_in_range(0..=4_000_000_000)?, 0).unwrap_or_default();
    let seq = source.int_in_range(1..=999_999_999_999_999)?;
    let mut scopes = Vec::new();
    for _ in 0..source.int_in_range(0..=17)? {
        let kinds = ["organization", "team", "user", "key", "customer"];
        let kind = (*source.choose(&kinds)?).to_owned();
        scopes.extend(ScopeRef::new(kind, text(source)?).ok());
    }
    let mut event = SpendEvent::new(text(source)?, text(source)?, scopes);
    for id in [
        &mut event.key_id,
        &mut event.user_id,
        &mut event.team_id,
        &mut event.project_id,
        &mut event.organization_id,
        &mut event.session_id,
    ] {
        *id = if source.arbitrary()? { Some(text(source)?) } else { None };
    }
    [event.provider, event.call_type, event.status] = [text(source)?, text(source)?, text(source)?];
    for count in [&mut event.prompt_tokens, &mut event.completion_tokens, &mut event.cached_tokens] {
        *count = source.int_in_range(0..=(1 << 40) + 1)?;
    }
    event.time_to_first_token_ms = source.arbitrary()?;
    event.cost = match source.int_in_range(0..=3)? {
        0 => None,
        1 => Some(Usd::ZERO),
        2 => Some(Usd::from_picos(source.arbitrary::<i64>()?.into())),
        _ => Some(Usd::from_picos(source.arbitrary()?)),
    };
    event.started_at = time(source, now)?;
    event.ended_at = time(source, now)?;
    event.cache_hit = source.arbitrary()?;
    for fields in [&mut event.metadata, &mut event.extra] {
        for _ in 0..source.int_in_range(0..=3)? {
            let name = if source.ratio(1, 16)? { "seq".to_owned() } else { text(source)? };
            fields.insert(name, value(source, 0)?);
        }
    }
    Ok((event, now, seq))
}

/// Mostly an id that is one; sometimes empty, too long, or with what an id must not have.
fn text(source: &mut Unstructured<'_>) -> Result<String> {
    Ok(match source.int_in_range(0..=15)? {
        0 => String::new(),
        1 => "x".repeat(source.int_in_range(100..=300)?),
        2..=4 => source.arbitrary()?,
        _ => format!("id-{}", source.arbitrary::<u8>()?),
    })
}

fn time(source: &mut Unstructured<'_>, now: DateTime<Utc>) -> Result<Option<DateTime<Utc>>> {
    Ok(match source.int_in_range(0..=3)? {
        0 => None,
        1 => DateTime::from_timestamp(source.arbitrary()?, source.int_in_range(0..=1_999_999_999)?),
        _ => now.checked_add_signed(TimeDelta::nanoseconds(source.arbitrary::<i64>()? % 200_000_000_000_000)),
    })
}

fn value(source: &mut Unstructured<'_>, depth: u8) -> Result<Value> {
    Ok(match source.int_in_range(0..=if depth < 4 { 7 } else { 5 })? {
        0 => Value::Null,
        1 => source.arbitrary::<bool>()?.into(),
        2 => source.arbitrary::<i64>()?.into(),
        3 => source.arbitrary::<u64>()?.into(),
        4 => source.arbitrary::<f64>()?.into(),
        5 => source.arbitrary::<String>()?.into(),
        6 => {
            let count = source.int_in_range(0..=3)?;
            (0..count).map(|_| value(source, depth + 1)).collect::<Result<Vec<_>>>()?.into()
        }
        _ => {
            // So deep that its reader may refuse it.
            let deep = source.int_in_range(0..=70)?;
            (0..deep).fold(Value::Null, |inner, _| Value::Array(vec![inner]))
        }
    })
}
