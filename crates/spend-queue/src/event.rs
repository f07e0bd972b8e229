//! One finished call: what is charged, to whom, and how it is checked.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Datelike, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::text::{check_id, check_text};
use crate::{EventError, FieldProblem, ScopeRef, TextProblem, Usd, UsdError};

/// The entry format that this release writes.
pub const ENTRY_FORMAT: u64 = 2;
/// The largest event as JSON, in bytes.
pub const MAX_EVENT_BYTES: usize = 64 * 1024;
/// The most scopes that one event charges.
pub const MAX_SCOPES: usize = 16;
/// The largest token count or duration in milliseconds of one event: 2^40.
pub const MAX_TOKENS: u64 = 1 << 40;
/// The longest model, provider, call type, status or session text, in bytes.
pub const MAX_TEXT_BYTES: usize = 256;
/// How far a gateway's clock may be ahead of the host that enqueues.
pub const CLOCK_TOLERANCE: TimeDelta = TimeDelta::days(1);

/// How many lists and objects may be inside one another in metadata and unknown fields: readers of JSON have a bound.
pub const MAX_DEPTH: usize = 64;

/// Names that an entry uses for itself, so an unknown field cannot have them: twice the same name cannot be read back.
const RESERVED: [&str; 26] = [
    "seq",
    "chain",
    "queued",
    "format",
    "spend",
    "request_id",
    "key_id",
    "user_id",
    "team_id",
    "project_id",
    "organization_id",
    "scopes",
    "model",
    "provider",
    "call_type",
    "status",
    "prompt_tokens",
    "completion_tokens",
    "cached_tokens",
    "spend_pusd",
    "start",
    "end",
    "time_to_first_token_ms",
    "session_id",
    "cache_hit",
    "metadata",
];

/// A finished call and its bill.
///
/// The fields are free to fill; [`SpendEvent::encode`] checks them all before anything is
/// queued. The request id is a permanent idempotency key: the first payload under it wins for ever.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SpendEvent {
    /// The idempotency key of the call: 1 to 128 bytes.
    pub request_id: String,
    /// The stable id of the key's row, never the secret or its hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_id: Option<String>,
    /// The user who owns the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// The user's team.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team_id: Option<String>,
    /// The project that the key belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
    /// The organization; also the partition of the event, so its place in a sharded queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub organization_id: Option<String>,
    /// Exactly the scopes to charge, 1 to 16, none twice. Nothing is derived from the ids above.
    pub scopes: Vec<ScopeRef>,
    /// The model that answered: 1 to 256 bytes.
    pub model: String,
    /// Who ran the model; may be empty.
    #[serde(default)]
    pub provider: String,
    /// The kind of call (`chat`, `embedding`, ...); may be empty.
    #[serde(default)]
    pub call_type: String,
    /// How the call ended; may be empty.
    #[serde(default)]
    pub status: String,
    /// Input tokens, 0 to 2^40.
    pub prompt_tokens: u64,
    /// Output tokens, 0 to 2^40.
    pub completion_tokens: u64,
    /// Input tokens that were served from a cache, 0 to 2^40.
    #[serde(default)]
    pub cached_tokens: u64,
    /// What the call costs: absent when unpriced, zero when free; both move no money.
    #[serde(rename = "spend_pusd", default, with = "picos", skip_serializing_if = "Option::is_none")]
    pub cost: Option<Usd>,
    /// When the call started; the period that it is charged to. Kept to the microsecond. Without it the
    /// event counts as current.
    #[serde(rename = "start", default, with = "instant", skip_serializing_if = "Option::is_none")]
    pub started_at: Option<DateTime<Utc>>,
    /// When the call ended. Kept to the microsecond.
    #[serde(rename = "end", default, with = "instant", skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<DateTime<Utc>>,
    /// Milliseconds until the first token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_to_first_token_ms: Option<u64>,
    /// The caller's session; at most 256 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Whether the gateway answered from its own cache.
    #[serde(default)]
    pub cache_hit: bool,
    /// Whatever the host wants to keep with the event.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, Value>,
    /// Fields of the entry that this release does not know, kept as they are.
    #[serde(flatten)]
    pub extra: BTreeMap<String, Value>,
}

impl SpendEvent {
    /// An event with the required fields; no tokens, unpriced, no times.
    #[must_use]
    pub fn new(request_id: impl Into<String>, model: impl Into<String>, scopes: Vec<ScopeRef>) -> Self {
        Self {
            request_id: request_id.into(),
            key_id: None,
            user_id: None,
            team_id: None,
            project_id: None,
            organization_id: None,
            scopes,
            model: model.into(),
            provider: String::new(),
            call_type: String::new(),
            status: String::new(),
            prompt_tokens: 0,
            completion_tokens: 0,
            cached_tokens: 0,
            cost: None,
            started_at: None,
            ended_at: None,
            time_to_first_token_ms: None,
            session_id: None,
            cache_hit: false,
            metadata: BTreeMap::new(),
            extra: BTreeMap::new(),
        }
    }

    /// The money that the event moves: its cost if above zero.
    #[must_use]
    pub fn paid(&self) -> Option<Usd> {
        self.cost.filter(|cost| !cost.is_zero())
    }

    /// Everything that must hold of an event wherever it is, without the clock.
    pub(crate) fn validate(&self) -> Result<(), EventError> {
        let fail = |field, problem| Err(EventError { field, problem });
        let ids = [
            ("key_id", &self.key_id),
            ("user_id", &self.user_id),
            ("team_id", &self.team_id),
            ("project_id", &self.project_id),
            ("organization_id", &self.organization_id),
        ];
        let given = ids.iter().filter_map(|(field, id)| id.as_ref().map(|id| (*field, id)));
        for (field, id) in given.chain([("request_id", &self.request_id)]) {
            check_id(id).or_else(|problem| fail(field, FieldProblem::Text(problem)))?;
        }
        if self.model.is_empty() {
            return fail("model", FieldProblem::Text(TextProblem::Empty));
        }
        let texts = [
            ("model", Some(&self.model)),
            ("provider", Some(&self.provider)),
            ("call_type", Some(&self.call_type)),
            ("status", Some(&self.status)),
            ("session_id", self.session_id.as_ref()),
        ];
        for (field, text) in texts.into_iter().filter_map(|(field, text)| text.map(|text| (field, text))) {
            check_text(text, MAX_TEXT_BYTES).or_else(|problem| fail(field, FieldProblem::Text(problem)))?;
        }
        self.validate_scopes()?;
        let counts = [
            ("prompt_tokens", self.prompt_tokens),
            ("completion_tokens", self.completion_tokens),
            ("cached_tokens", self.cached_tokens),
            ("time_to_first_token_ms", self.time_to_first_token_ms.unwrap_or(0)),
        ];
        if let Some((field, count)) = counts.into_iter().find(|(_, count)| *count > MAX_TOKENS) {
            return fail(field, FieldProblem::TooMany(count));
        }
        match self.cost {
            Some(cost) if cost.is_negative() => return fail("cost", FieldProblem::Negative),
            Some(cost) if cost.counter().is_err() => return fail("cost", FieldProblem::TooExpensive),
            _ => {}
        }
        for (field, time) in self.times() {
            if !(1970..=9999).contains(&time.year()) {
                return fail(field, FieldProblem::YearOutOfRange);
            }
        }
        for (field, values) in [("metadata", &self.metadata), ("extra", &self.extra)] {
            if values.keys().any(|name| name.contains('\0')) {
                return fail(field, FieldProblem::Nul);
            }
            if let Some(problem) = values.values().find_map(unkeepable) {
                return fail(field, problem);
            }
        }
        match self.extra.keys().find(|name| RESERVED.contains(&name.as_str())) {
            Some(name) => fail("extra", FieldProblem::Reserved(name.clone())),
            None => Ok(()),
        }
    }

    fn validate_scopes(&self) -> Result<(), EventError> {
        let fail = |problem| Err(EventError { field: "scopes", problem });
        let mut seen = BTreeSet::new();
        match self.scopes.len() {
            0 => fail(FieldProblem::NoScope),
            count if count > MAX_SCOPES => fail(FieldProblem::TooManyScopes(count)),
            _ => match self.scopes.iter().find(|scope| !seen.insert(*scope)) {
                Some(twice) => fail(FieldProblem::DuplicateScope(twice.clone())),
                None => Ok(()),
            },
        }
    }

    /// Refuses a time more than a day ahead of `now`.
    pub(crate) fn validate_clock(&self, now: DateTime<Utc>) -> Result<(), EventError> {
        match self.times().find(|(_, time)| time.signed_duration_since(now) > CLOCK_TOLERANCE) {
            Some((field, given)) => {
                Err(EventError { field, problem: FieldProblem::InTheFuture { given, now } })
            }
            None => Ok(()),
        }
    }

    fn times(&self) -> impl Iterator<Item = (&'static str, DateTime<Utc>)> {
        [("started_at", self.started_at), ("ended_at", self.ended_at)]
            .into_iter()
            .filter_map(|(field, time)| time.map(|time| (field, time)))
    }

    /// The billing root of a validated event: the organization, else the user, else the first scope.
    pub(crate) fn partition(&self) -> ScopeRef {
        match (&self.organization_id, &self.user_id) {
            (Some(id), _) => ScopeRef::checked("organization", id),
            (None, Some(id)) => ScopeRef::checked("user", id),
            (None, None) => self.scopes[0].clone(),
        }
    }
}

/// What hides in a value that could not be stored or read back: iterative, since the depth is the caller's.
fn unkeepable(value: &Value) -> Option<FieldProblem> {
    let mut open = vec![(value, 1)];
    while let Some((value, depth)) = open.pop() {
        match value {
            Value::String(text) if text.contains('\0') => return Some(FieldProblem::Nul),
            Value::Array(_) | Value::Object(_) if depth > MAX_DEPTH => return Some(FieldProblem::TooDeep),
            Value::Array(items) => open.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(fields) => {
                if fields.keys().any(|name| name.contains('\0')) {
                    return Some(FieldProblem::Nul);
                }
                open.extend(fields.values().map(|field| (field, depth + 1)));
            }
            _ => {}
        }
    }
    None
}

/// The cost as integer picodollars, which every reader of JSON in `i64` keeps exactly.
mod picos {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, ser};

    use super::{Usd, UsdError};

    pub(super) fn serialize<S: Serializer>(cost: &Option<Usd>, serializer: S) -> Result<S::Ok, S::Error> {
        let picos = cost.map(Usd::counter).transpose();
        picos.map_err(|error: UsdError| ser::Error::custom(error))?.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Usd>, D::Error> {
        Ok(Option::<i64>::deserialize(deserializer)?.map(|picos| Usd::from_picos(picos.into())))
    }
}

/// RFC 3339 in UTC with microseconds: what PostgreSQL keeps.
mod instant {
    use chrono::{DateTime, SecondsFormat, Utc};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(
        time: &Option<DateTime<Utc>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        time.map(|time| time.to_rfc3339_opts(SecondsFormat::Micros, true)).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<DateTime<Utc>>, D::Error> {
        Option::<DateTime<Utc>>::deserialize(deserializer)
    }
}
