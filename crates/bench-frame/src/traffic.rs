//! The finished calls of a busy gateway.

use std::ops::Range;

use anyhow::Result;
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::json;
use spend_queue::{EncodedEvent, ScopeRef, SpendEvent};

/// Organizations of the whole deployment.
pub const ORGANIZATIONS: usize = 20;
const TEAMS: usize = 10;
const USERS: usize = 8;
const KEYS: usize = 3;
/// Keys of the whole deployment.
const ALL_KEYS: usize = ORGANIZATIONS * TEAMS * USERS * KEYS;
/// Shares no factor with the number of keys, so that neighbours in time are strangers.
const STRIDE: usize = 2_741;
/// Calls take up to ten seconds, so events of one moment started at as many different milliseconds.
pub const LONGEST_CALL_MILLIS: i64 = 10_000;

/// Who calls.
#[derive(Debug, Clone, Copy)]
pub enum Callers {
    /// All keys in turn: 20 organizations of 10 teams of 8 users with 3 keys each.
    Everyone,
    /// One key.
    OneKey,
}

/// The nth finished call of an hour that began at `hour`.
///
/// # Errors
///
/// None for numbers below 2^40: the bounds of an event are kept.
pub fn event(nth: usize, callers: Callers, hour: DateTime<Utc>) -> Result<SpendEvent> {
    let key = match callers {
        Callers::Everyone => nth * STRIDE % ALL_KEYS,
        Callers::OneKey => 0,
    };
    let user = key / KEYS;
    let team = user / USERS;
    let organization = organization(team / TEAMS);
    let (team, user, key) = (format!("team-{team:06}"), format!("user-{user:06}"), format!("key-{key:06}"));
    let scopes = [("organization", &organization), ("team", &team), ("user", &user), ("key", &key)]
        .into_iter()
        .map(|(kind, id)| ScopeRef::new(kind, id.as_str()))
        .collect::<Result<Vec<_>, _>>()?;
    let mut event = SpendEvent::new(request_id(nth), "gpt-4o-2024-08-06", scopes);
    event.organization_id = Some(organization);
    event.team_id = Some(team);
    event.user_id = Some(user);
    event.key_id = Some(key);
    "openai".clone_into(&mut event.provider);
    "chat".clone_into(&mut event.call_type);
    "success".clone_into(&mut event.status);
    let tokens = u64::try_from(nth % 4_000)?;
    event.prompt_tokens = 800 + tokens;
    event.completion_tokens = 100 + tokens / 8;
    event.cost = format!("0.00{:07}", 2_500_000 + nth % 1_000_000).parse().map(Some)?;
    let nth = i64::try_from(nth)?;
    let millis = TimeDelta::milliseconds(1 + nth * 7_919 % LONGEST_CALL_MILLIS);
    event.started_at = Some(hour + millis + TimeDelta::microseconds(nth % 1_000));
    event.ended_at = Some(hour + TimeDelta::milliseconds(LONGEST_CALL_MILLIS));
    event.time_to_first_token_ms = Some(180 + tokens % 400);
    event.metadata.insert("tag".to_owned(), json!("production"));
    Ok(event)
}

/// The id of an organization, of which there are 20.
#[must_use]
pub fn organization(number: usize) -> String {
    format!("organization-{number:06}")
}

/// Those events made ready, so that making them is not measured.
///
/// # Errors
///
/// None for numbers below 2^40: the bounds of an event are kept.
pub fn encoded(numbers: Range<usize>, callers: Callers, hour: DateTime<Utc>) -> Result<Vec<EncodedEvent>> {
    numbers.map(|nth| Ok(event(nth, callers, hour)?.encode(hour)?)).collect()
}

/// Events that leave little but the memory of their ids: free, so that they charge nobody.
///
/// # Errors
///
/// None for numbers below 2^40: the bounds of an event are kept.
pub fn free(numbers: Range<usize>) -> Result<Vec<EncodedEvent>> {
    let now = Utc::now();
    let scope = ScopeRef::new("team", "t")?;
    numbers.map(|nth| Ok(SpendEvent::new(request_id(nth), "m", vec![scope.clone()]).encode(now)?)).collect()
}

/// The request id of the nth call, in the writing of a UUID.
#[must_use]
pub fn request_id(nth: usize) -> String {
    format!("0197a2c4-7d1e-7{:03x}-9b2f-{nth:012x}", nth % 4_096)
}
