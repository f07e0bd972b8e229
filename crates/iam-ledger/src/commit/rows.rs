//! The events of a batch as one array a column.

use chrono::{DateTime, Utc};
use spend_queue::{Entry, SpendEvent};
use sqlx::PgConnection;

use crate::LedgerError;
use crate::money::to_picos;

/// Between the scopes of one event. It is a control character, which no scope can contain.
const SCOPE_SEPARATOR: &str = "\u{1f}";

/// What `insert_events.sql` takes, in its order.
#[derive(Default)]
pub(super) struct EventColumns<'a> {
    request_ids: Vec<&'a str>,
    started_at: Vec<DateTime<Utc>>,
    reported_starts: Vec<Option<DateTime<Utc>>>,
    ended_at: Vec<Option<DateTime<Utc>>>,
    organizations: Vec<Option<&'a str>>,
    teams: Vec<Option<&'a str>>,
    projects: Vec<Option<&'a str>>,
    users: Vec<Option<&'a str>>,
    keys: Vec<Option<&'a str>>,
    scopes: Vec<String>,
    providers: Vec<&'a str>,
    models: Vec<&'a str>,
    call_types: Vec<&'a str>,
    statuses: Vec<&'a str>,
    prompt_tokens: Vec<i64>,
    completion_tokens: Vec<i64>,
    cached_tokens: Vec<i64>,
    costs: Vec<Option<i64>>,
    times_to_first_token: Vec<Option<i64>>,
    sessions: Vec<Option<&'a str>>,
    cache_hits: Vec<bool>,
    metadata: Vec<String>,
    extra: Vec<String>,
}

impl<'a> EventColumns<'a> {
    pub(super) fn of(entries: &[&'a Entry], committed_at: DateTime<Utc>) -> Result<Self, LedgerError> {
        let mut columns = Self::default();
        for entry in entries {
            columns.push(&entry.event, committed_at)?;
        }
        Ok(columns)
    }

    fn push(&mut self, event: &'a SpendEvent, committed_at: DateTime<Utc>) -> Result<(), LedgerError> {
        self.request_ids.push(&event.request_id);
        self.started_at.push(charged_at(event, committed_at));
        self.reported_starts.push(event.started_at.map(to_micros));
        self.ended_at.push(event.ended_at.map(to_micros));
        self.organizations.push(event.organization_id.as_deref());
        self.teams.push(event.team_id.as_deref());
        self.projects.push(event.project_id.as_deref());
        self.users.push(event.user_id.as_deref());
        self.keys.push(event.key_id.as_deref());
        let scopes: Vec<String> = event.scopes.iter().map(ToString::to_string).collect();
        self.scopes.push(scopes.join(SCOPE_SEPARATOR));
        self.providers.push(&event.provider);
        self.models.push(&event.model);
        self.call_types.push(&event.call_type);
        self.statuses.push(&event.status);
        self.prompt_tokens.push(count("prompt_tokens", event.prompt_tokens)?);
        self.completion_tokens.push(count("completion_tokens", event.completion_tokens)?);
        self.cached_tokens.push(count("cached_tokens", event.cached_tokens)?);
        self.costs.push(event.cost.map(to_picos).transpose()?);
        let first_token = event.time_to_first_token_ms.map(|ms| count("time_to_first_token_ms", ms));
        self.times_to_first_token.push(first_token.transpose()?);
        self.sessions.push(event.session_id.as_deref());
        self.cache_hits.push(event.cache_hit);
        self.metadata.push(json("metadata", &event.metadata)?);
        self.extra.push(json("extra", &event.extra)?);
        Ok(())
    }

    pub(super) async fn insert(
        &self,
        connection: &mut PgConnection,
        committed_at: DateTime<Utc>,
    ) -> Result<(), LedgerError> {
        sqlx::query_file!(
            "queries/insert_events.sql",
            committed_at,
            &self.request_ids as &[&str],
            &self.started_at,
            &self.reported_starts as &[Option<DateTime<Utc>>],
            &self.ended_at as &[Option<DateTime<Utc>>],
            &self.organizations as &[Option<&str>],
            &self.teams as &[Option<&str>],
            &self.projects as &[Option<&str>],
            &self.users as &[Option<&str>],
            &self.keys as &[Option<&str>],
            &self.scopes,
            &self.providers as &[&str],
            &self.models as &[&str],
            &self.call_types as &[&str],
            &self.statuses as &[&str],
            &self.prompt_tokens,
            &self.completion_tokens,
            &self.cached_tokens,
            &self.costs as &[Option<i64>],
            &self.times_to_first_token as &[Option<i64>],
            &self.sessions as &[Option<&str>],
            &self.cache_hits,
            &self.metadata,
            &self.extra,
        )
        .execute(connection)
        .await
        .map_err(LedgerError::query("storing events"))?;
        Ok(())
    }
}

/// The instant that decides an event's day and period: its start, else its end (it had started by then), else now.
pub(super) fn charged_at(event: &SpendEvent, committed_at: DateTime<Utc>) -> DateTime<Utc> {
    to_micros(event.started_at.or(event.ended_at).unwrap_or(committed_at))
}

/// What PostgreSQL keeps, so that Rust and SQL agree on the day: whole microseconds, rounded down, and a leap second as
/// the next minute's first second.
pub(super) fn to_micros(at: DateTime<Utc>) -> DateTime<Utc> {
    DateTime::from_timestamp_micros(at.timestamp_micros()).unwrap_or(at)
}

/// A token count or sum as a `BIGINT`.
pub(super) fn count(what: &'static str, count: u64) -> Result<i64, LedgerError> {
    i64::try_from(count).map_err(|_| LedgerError::OutOfRange {
        what,
        value: count.to_string(),
        bound: i64::MAX.to_string(),
    })
}

fn json(column: &'static str, value: &impl serde::Serialize) -> Result<String, LedgerError> {
    serde_json::to_string(value).map_err(|error| LedgerError::Unreadable { column, value: error.to_string() })
}

#[cfg(test)]
mod tests {
    use spend_queue::ScopeRef;

    use super::*;

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    #[test]
    fn start_counts_before_end_and_end_before_the_commit() {
        let mut event = SpendEvent::new("r", "m", vec![ScopeRef::new("team", "t").unwrap()]);
        let commit = at("2026-03-03T00:00:00Z");
        assert_eq!(charged_at(&event, commit), commit);
        event.ended_at = Some(at("2026-03-02T00:00:00Z"));
        assert_eq!(charged_at(&event, commit), at("2026-03-02T00:00:00Z"));
        event.started_at = Some(at("2026-03-01T23:59:59.9Z"));
        assert_eq!(charged_at(&event, commit), at("2026-03-01T23:59:59.9Z"));
    }

    #[test]
    fn times_are_kept_to_the_microsecond_rounded_down_on_both_sides_of_2000() {
        for (given, kept) in [
            ("1999-12-31T23:59:59.999999999Z", "1999-12-31T23:59:59.999999Z"),
            ("2026-12-31T23:59:59.999999999Z", "2026-12-31T23:59:59.999999Z"),
            ("2016-12-31T23:59:60.5Z", "2017-01-01T00:00:00.5Z"),
        ] {
            assert_eq!(to_micros(at(given)), at(kept));
        }
    }
}
