//! What an entry charges, read from an event that this release cannot store: no more of it than its acknowledgement needs.
//!
//! The same parts, by the same rules, as the scripts read when they go through entries (`live-redis/lua/parts/scan.lua`).

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{ScopeRef, SpendEvent, Usd};

#[derive(Deserialize)]
struct Charged<'a> {
    scopes: Vec<String>,
    #[serde(default)]
    spend: Option<String>,
    #[serde(default)]
    spend_pusd: Option<i64>,
    #[serde(default)]
    start: Option<DateTime<Utc>>,
    /// Raw: it may be what makes the event one that cannot be stored.
    #[serde(default, borrow)]
    request_id: Option<&'a RawValue>,
}

/// The scopes, amount and start of an event of format 2, and its request id if it is a text. `None` when what enqueueing it added
/// cannot be told.
pub(crate) fn salvage(object: &str) -> Option<SpendEvent> {
    let charged: Charged<'_> = serde_json::from_str(object).ok()?;
    let cost = charged.spend_pusd.map(|picos| Usd::from_picos(picos.into()));
    let shown = charged.spend.as_deref().map(|shown| shown.parse::<Usd>().ok());
    if shown != cost.map(Some) || cost.is_some_and(Usd::is_negative) {
        return None;
    }
    let scopes = charged.scopes.iter().map(|text| scope(text)).collect::<Option<Vec<_>>>()?;
    let distinct: BTreeSet<&ScopeRef> = scopes.iter().collect();
    if scopes.is_empty() || distinct.len() < scopes.len() {
        return None;
    }
    let mut event = SpendEvent::new(text(charged.request_id).unwrap_or_default(), "", scopes);
    (event.cost, event.started_at) = (cost, charged.start);
    Some(event)
}

/// A JSON value that is a text.
pub(crate) fn text(value: Option<&RawValue>) -> Option<String> {
    serde_json::from_str(value?.get()).ok()
}

/// A scope by its text, which may be longer than an event may name.
fn scope(text: &str) -> Option<ScopeRef> {
    let (kind, id) = text.split_once('/')?;
    if kind.is_empty() || id.is_empty() || text.contains(|c: char| c.is_ascii_control()) {
        return None;
    }
    let scope = ScopeRef::checked(&kind.replace("%2F", "/").replace("%25", "%"), id);
    // What was added to is the counter of exactly this text.
    (scope.to_string() == text).then_some(scope)
}
