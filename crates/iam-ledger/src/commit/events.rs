//! The events of a batch, as rows of `usage_events`.

use chrono::{DateTime, Utc};
use postgres_types::{Json, Type};
use spend_queue::{Entry, SpendEvent};
use sqlx::PgConnection;

use super::binary_row::{RowWriter, SettledEventRow};
use super::part::Times;
use crate::LedgerError;
use crate::money::Numeric;

/// A guess at the size of a row: ids, four scopes, a little metadata.
const ROW_BYTES: usize = 512;

/// The types of the fields of `settled_event`, in its order.
const FIELDS: [Type; 24] = [
    Type::TEXT,
    Type::TIMESTAMPTZ,
    Type::TIMESTAMPTZ,
    Type::TIMESTAMPTZ,
    Type::TIMESTAMPTZ,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT_ARRAY,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::INT8,
    Type::INT8,
    Type::INT8,
    Type::NUMERIC,
    Type::INT8,
    Type::TEXT,
    Type::BOOL,
    Type::JSONB,
    Type::JSONB,
];

/// Stores the events in one statement with one parameter.
pub(super) async fn insert_events(
    connection: &mut PgConnection,
    entries: &[&Entry],
    times: Times,
) -> Result<(), LedgerError> {
    let rows = rows_of(entries, times)?;
    sqlx::query_file!("queries/insert_events.sql", &rows as &[SettledEventRow])
        .execute(connection)
        .await
        .map_err(LedgerError::query("storing events"))?;
    Ok(())
}

fn rows_of(entries: &[&Entry], times: Times) -> Result<Vec<SettledEventRow>, LedgerError> {
    let mut writer = RowWriter::new(FIELDS, entries.len().saturating_mul(ROW_BYTES));
    let mut rows = Vec::with_capacity(entries.len());
    for Entry { event, .. } in entries {
        let scopes: Vec<String> = event.scopes.iter().map(ToString::to_string).collect();
        let first_token = event.time_to_first_token_ms.map(|ms| count("time_to_first_token_ms", ms));
        rows.push(writer.write([
            &event.request_id,
            &charged_at(event, times.untimed_at),
            &event.started_at.map(to_micros),
            &event.ended_at.map(to_micros),
            &times.settled_at,
            &event.organization_id,
            &event.team_id,
            &event.project_id,
            &event.user_id,
            &event.key_id,
            &scopes,
            &event.provider,
            &event.model,
            &event.call_type,
            &event.status,
            &count("prompt_tokens", event.prompt_tokens)?,
            &count("completion_tokens", event.completion_tokens)?,
            &count("cached_tokens", event.cached_tokens)?,
            &event.cost.map(Numeric),
            &first_token.transpose()?,
            &event.session_id,
            &event.cache_hit,
            &Json(&event.metadata),
            &Json(&event.extra),
        ])?);
    }
    Ok(rows)
}

/// The instant that decides an event's day and period: its start, else its end (it had started by then), else the given
/// one.
pub(super) fn charged_at(event: &SpendEvent, untimed_at: DateTime<Utc>) -> DateTime<Utc> {
    to_micros(event.started_at.or(event.ended_at).unwrap_or(untimed_at))
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
