//! Entry format 1: what earlier deployments wrote, and may still write beside this release.
//!
//! A format 1 entry is a JSON object without sequence number and chain. Its money is a JSON number, its counters are
//! floats that are named by the hash of the key's secret, and it may lack the stable id of the key.

use chrono::{DateTime, Datelike, Utc};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{EntryError, EventError, FieldProblem, ScopeRef, ScopeRefError, SpendEvent, Usd, salvage};

/// The kind of the scope that stands in for a key whose stable id the entry does not say; its id is the hash of the secret.
pub const OLDER_KEY: &str = "older_key";
/// The kind of the scope that is charged when an entry names nobody.
pub const UNATTRIBUTED: &str = "unattributed";

/// Where the digits of an amount finer than a picodollar are kept, in the event's metadata.
const DIGITS: &str = "spend_digits";

/// An entry of format 1 as this release charges it.
pub(crate) struct Charged {
    /// The event; its scopes are those that the ledger charges.
    pub(crate) event: SpendEvent,
    /// The counters that the older deployment added its spend to.
    pub(crate) counters: Vec<ScopeRef>,
    /// Why it cannot be settled, if it cannot.
    pub(crate) problem: Option<EntryError>,
}

#[derive(Deserialize)]
struct Older<'a> {
    request_id: String,
    #[serde(default)]
    call_type: Option<String>,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    api_key: Option<String>,
    #[serde(default)]
    key_id: Option<String>,
    #[serde(default)]
    prompt_tokens: u64,
    #[serde(default)]
    completion_tokens: u64,
    #[serde(default, borrow)]
    spend: Option<&'a RawValue>,
    #[serde(default)]
    spend_valid: Option<bool>,
    #[serde(default)]
    start: Option<serde_json::Value>,
    #[serde(default)]
    end: Option<serde_json::Value>,
    #[serde(default)]
    cache_hit: Option<bool>,
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    team_id: Option<String>,
    #[serde(default)]
    user_id: Option<String>,
    #[serde(default)]
    org_id: Option<String>,
}

/// The parts by which an entry is charged, each as it is written: another may be what makes it one that cannot be settled.
#[derive(Deserialize)]
struct Parts<'a> {
    #[serde(borrow)]
    request_id: &'a RawValue,
    #[serde(default, borrow)]
    api_key: Option<&'a RawValue>,
    #[serde(default, borrow)]
    spend: Option<&'a RawValue>,
    #[serde(default, borrow)]
    spend_valid: Option<&'a RawValue>,
    #[serde(default, borrow)]
    team_id: Option<&'a RawValue>,
    #[serde(default, borrow)]
    user_id: Option<&'a RawValue>,
    #[serde(default, borrow)]
    org_id: Option<&'a RawValue>,
}

/// Reads an entry of format 1; one that breaks a rule, but says what it charges, with its problem.
pub(crate) fn decode(text: &str) -> Result<Charged, EntryError> {
    read(text).or_else(|problem| salvaged(text, &problem).ok_or(problem))
}

/// What an entry that cannot be settled added to the counters: their names are its texts, whatever these hold.
fn salvaged(text: &str, problem: &EntryError) -> Option<Charged> {
    let parts: Parts<'_> = serde_json::from_str(text).ok()?;
    let is_text = parts.request_id.get().starts_with('"') && parts.request_id.get() != "\"\"";
    let is_valid = parts.spend_valid.is_none_or(|valid| valid.get() != "false");
    let cost = match parts.spend {
        Some(digits) if is_valid => amount(digits.get()).ok()?.0,
        _ => None,
    };
    if cost.is_some_and(|cost| cost.is_negative() || cost.counter().is_err()) {
        return None;
    }
    let named = [
        ("organization", parts.org_id),
        ("team", parts.team_id),
        ("user", parts.user_id),
        ("key", parts.api_key),
    ];
    let counters = named.into_iter().filter_map(|(kind, id)| {
        salvage::text(id).filter(|id| !id.is_empty()).map(|id| ScopeRef::checked(kind, &id))
    });
    let counters: Vec<_> = counters.collect();
    let mut event =
        SpendEvent::new(salvage::text(Some(parts.request_id)).unwrap_or_default(), "", counters.clone());
    event.cost = cost;
    is_text.then(|| Charged { event, counters, problem: Some(problem.clone()) })
}

/// Reads an entry of format 1 that can be settled.
fn read(text: &str) -> Result<Charged, EntryError> {
    let older: Older<'_> = serde_json::from_str(text).map_err(|error| EntryError::Json(error.to_string()))?;
    let (cost, rounded) = match (older.spend_valid.unwrap_or(true), older.spend) {
        (true, Some(digits)) => amount(digits.get())?,
        _ => (None, false),
    };
    let given = |id: Option<String>| id.filter(|id| !id.is_empty());
    let (key_id, secret_hash) = (given(older.key_id), given(older.api_key));
    let owners = [
        ("organization", given(older.org_id)),
        ("team", given(older.team_id)),
        ("user", given(older.user_id)),
    ];
    let scopes = |key: Option<(&'static str, &String)>| {
        let owners = owners.iter().filter_map(|(kind, id)| id.as_ref().map(|id| (*kind, id)));
        let named = owners.chain(key).map(|(kind, id)| ScopeRef::new(kind, id.as_str()));
        named.collect::<Result<Vec<_>, _>>().map_err(|error| unnamable(&error))
    };
    let hash = secret_hash.as_ref();
    let key = key_id.as_ref().map(|id| ("key", id)).or_else(|| hash.map(|hash| (OLDER_KEY, hash)));
    let mut charged = scopes(key)?;
    if charged.is_empty() {
        charged.push(ScopeRef::checked(UNATTRIBUTED, "format-1"));
    }
    let counters = scopes(hash.map(|hash| ("key", hash)))?;

    let model = given(older.model).unwrap_or_else(|| "unknown".to_owned());
    let mut event = SpendEvent::new(older.request_id, model, charged);
    [event.organization_id, event.team_id, event.user_id] = owners.map(|(_, id)| id);
    event.key_id = key_id;
    event.call_type = older.call_type.unwrap_or_default();
    event.status = older.status.unwrap_or_default();
    event.prompt_tokens = older.prompt_tokens;
    event.completion_tokens = older.completion_tokens;
    event.cost = cost;
    event.started_at = older.start.as_ref().and_then(time);
    event.ended_at = older.end.as_ref().and_then(time);
    event.cache_hit = older.cache_hit.unwrap_or_default();
    if let (true, Some(digits)) = (rounded, older.spend) {
        event.metadata.insert(DIGITS.to_owned(), digits.get().into());
    }
    event.validate()?;
    Ok(Charged { event, counters, problem: None })
}

/// The amount of a JSON number from its digits, and whether it had to be rounded to a picodollar. A program that computes
/// with floats writes digits such as `0.30000000000000004`, so finer digits are no fault of the bill.
fn amount(digits: &str) -> Result<(Option<Usd>, bool), EntryError> {
    if digits == "null" {
        return Ok((None, false));
    }
    if !digits.starts_with(|c: char| c == '-' || c.is_ascii_digit()) {
        return Err(EntryError::Json("spend is not a number".to_owned()));
    }
    let (cost, exact) =
        Usd::nearest(digits).map_err(|error| EntryError::Json(format!("spend is {error}")))?;
    Ok((Some(cost), !exact))
}

fn time(value: &serde_json::Value) -> Option<DateTime<Utc>> {
    older_start(value.as_str()?)
}

/// The time that an entry of format 1 writes, RFC 3339 from 1970 to 9999; `None` for anything else, which counts as not said.
#[must_use]
pub fn older_start(text: &str) -> Option<DateTime<Utc>> {
    let time = DateTime::parse_from_rfc3339(text).ok()?.with_timezone(&Utc);
    (1970..=9999).contains(&time.year()).then_some(time)
}

fn unnamable(error: &ScopeRefError) -> EntryError {
    let field = "team_id, user_id, org_id, key_id or api_key";
    match error {
        ScopeRefError::Kind(problem) | ScopeRefError::Id(problem) => {
            EventError { field, problem: FieldProblem::Text(*problem) }.into()
        }
        ScopeRefError::Form => EntryError::Json(format!("{field} is no id")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"{"request_id":"r","call_type":"chat","model":"m","api_key":"0ff","key_id":"k","prompt_tokens":3,
        "completion_tokens":4,"spend":0.0000027,"spend_valid":true,"start":"2026-03-01T01:00:00.5+01:00",
        "end":"2026-03-01T00:00:02Z","cache_hit":true,"status":"success","team_id":"t","user_id":"u","org_id":"o"}"#;

    fn with(from: &str, to: &str) -> Result<Charged, EntryError> {
        assert!(WHOLE.contains(from), "{from}");
        decode(&WHOLE.replacen(from, to, 1))
    }

    fn names(scopes: &[ScopeRef]) -> Vec<String> {
        scopes.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_ledger_charges_the_stable_key_and_the_old_counters_the_hash() {
        let Charged { event, counters, problem } = decode(WHOLE).unwrap();
        assert_eq!(problem, None);
        assert_eq!(names(&event.scopes), ["organization/o", "team/t", "user/u", "key/k"]);
        assert_eq!(names(&counters), ["organization/o", "team/t", "user/u", "key/0ff"]);
        assert_eq!(event.cost, Some(Usd::from_picos(2_700_000)));
        assert_eq!(event.started_at, Some("2026-03-01T00:00:00.5Z".parse().unwrap()));
        assert_eq!((event.prompt_tokens, event.completion_tokens, event.cache_hit), (3, 4, true));
        assert!(event.metadata.is_empty());
    }

    #[test]
    fn an_entry_without_a_stable_key_is_charged_to_its_hash_and_one_that_names_nobody_is_charged_too() {
        for missing in ["", r#""key_id":"","#, r#""key_id":null,"#] {
            let Charged { event, counters, .. } = with(r#""key_id":"k","#, missing).unwrap();
            assert_eq!(names(&event.scopes), ["organization/o", "team/t", "user/u", "older_key/0ff"]);
            assert_eq!(names(&counters).last().unwrap(), "key/0ff");
            assert_eq!(event.key_id, None);
        }
        let Charged { event, counters, .. } = decode(r#"{"request_id":"r","spend":1}"#).unwrap();
        assert_eq!(names(&event.scopes), ["unattributed/format-1"]);
        assert_eq!((event.model.as_str(), counters.len()), ("unknown", 0));
    }

    #[test]
    fn amounts_come_from_their_digits() {
        for (digits, picos, kept) in [
            ("1.2e-05", 12_000_000, None),
            ("0", 0, None),
            ("9223372.036854775807", i128::from(i64::MAX), None),
            ("0.1234567890123", 123_456_789_012, Some("0.1234567890123")),
            ("0.30000000000000004", 300_000_000_000, Some("0.30000000000000004")),
            ("1e-300", 0, Some("1e-300")),
        ] {
            let Charged { event, .. } = with("0.0000027", digits).unwrap();
            assert_eq!(event.cost.map(Usd::picos), Some(picos), "{digits}");
            assert_eq!(event.metadata.get(DIGITS).and_then(|kept| kept.as_str()), kept, "{digits}");
        }
        for unpriced in [r#""spend":0.0000027,"spend_valid":false"#, r#""spend":null,"spend_valid":true"#] {
            let Charged { event, .. } = with(r#""spend":0.0000027,"spend_valid":true"#, unpriced).unwrap();
            assert_eq!(event.cost, None);
        }
        for refused in ["-1", "1e400", "\"1\"", "[1]", "true", "9223372.036854775808"] {
            assert!(with("0.0000027", refused).is_err(), "{refused}");
        }
    }

    #[test]
    fn a_time_that_cannot_be_read_counts_as_not_said() {
        for start in
            ["\"\"", "\"yesterday\"", "null", "17", "\"0001-01-01T00:00:00Z\"", "\"2026-03-01 00:00:00\""]
        {
            let Charged { event, .. } = with("\"2026-03-01T01:00:00.5+01:00\"", start).unwrap();
            assert_eq!(event.started_at, None, "{start}");
        }
    }

    #[test]
    fn what_cannot_be_charged_is_an_error_and_not_guessed() {
        for text in
            ["", "{}", "[]", "null", "{\"request_id\":1}", "{\"request_id\":\"\"}", &WHOLE[..WHOLE.len() - 1]]
        {
            assert!(decode(text).is_err(), "{text}");
        }
        assert!(with("\"r\"", "\"r\",\"request_id\":\"s\"").is_err());
    }

    #[test]
    fn what_says_its_charge_and_cannot_be_stored_keeps_its_counters_and_says_what_is_wrong() {
        let long = "u".repeat(129);
        for (from, to, counter) in [
            (":3", ":-3", "user/u"),
            (":3", ":3.5", "user/u"),
            (":3", ":18446744073709551615", "user/u"),
            ("\"t\"", "\"t\\u0000\"", "team/t\0"),
            ("\"t\"", "\"t\\n\"", "team/t\n"),
            ("\"u\"", &format!("\"{long}\""), &format!("user/{long}")),
            ("\"m\"", "\"m\\u0000\"", "team/t"),
            ("\"m\"", "\"\\ud800\"", "team/t"),
            ("\"success\"", "\"\\u0000\"", "key/0ff"),
            ("\"success\"", "7", "key/0ff"),
            ("\"r\"", "\"\\u0000\"", "key/0ff"),
        ] {
            let Charged { event, counters, problem } = with(from, to).unwrap();
            assert!(problem.is_some(), "{to}");
            assert_eq!(event.cost, Some(Usd::from_picos(2_700_000)), "{to}");
            assert_eq!(counters.len(), 4, "{to}");
            assert!(names(&counters).iter().any(|name| name == counter), "{to}: {counters:?}");
        }
    }
}
