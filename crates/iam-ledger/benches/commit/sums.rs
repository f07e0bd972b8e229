//! The sums of a batch and their two statements, for the ways that are not the ledger's own.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use chrono::{DateTime, NaiveDate, Utc};
use spend_queue::{Entry, ScopeRef, Usd};
use sqlx::PgConnection;

const DAILY: &str = include_str!("../../queries/add_daily_usage.sql");
const SCOPES: &str = include_str!("../../queries/add_scope_spend.sql");

/// Events, unpriced events, input, output and cached tokens.
type Counts = [i64; 5];

pub(crate) async fn add_daily(connection: &mut PgConnection, entries: &[Entry]) -> Result<()> {
    let mut sums = BTreeMap::<([&str; 7], NaiveDate), (Counts, Usd)>::new();
    for Entry { event, .. } in entries {
        let day = event.started_at.context("every event of the bench has a start")?.date_naive();
        let ids = [
            event.organization_id.as_deref(),
            event.team_id.as_deref(),
            event.project_id.as_deref(),
            event.user_id.as_deref(),
            event.key_id.as_deref(),
            Some(&*event.provider),
            Some(&*event.model),
        ]
        .map(Option::unwrap_or_default);
        let (counts, cost) = sums.entry((ids, day)).or_default();
        let more = [
            1,
            i64::from(event.cost.is_none()),
            i64::try_from(event.prompt_tokens)?,
            i64::try_from(event.completion_tokens)?,
            i64::try_from(event.cached_tokens)?,
        ];
        counts.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        *cost = cost.checked_add(event.cost.unwrap_or_default()).context("a sum")?;
    }
    let days: Vec<NaiveDate> = sums.keys().map(|(_, day)| *day).collect();
    let mut query = sqlx::query(DAILY).bind(days);
    for at in 0..7 {
        query = query.bind(sums.keys().map(|(ids, _)| ids[at]).collect::<Vec<&str>>());
    }
    for at in 0..5 {
        query = query.bind(sums.values().map(|(counts, _)| counts[at]).collect::<Vec<i64>>());
    }
    let costs: Vec<String> = sums.values().map(|(_, cost)| cost.to_string()).collect();
    query.bind(costs).execute(connection).await?;
    Ok(())
}

pub(crate) async fn add_scopes(connection: &mut PgConnection, entries: &[Entry]) -> Result<()> {
    let mut sums = BTreeMap::<(&ScopeRef, DateTime<Utc>), (Usd, i64)>::new();
    for Entry { event, .. } in entries {
        let start = event.started_at.context("every event of the bench has a start")?;
        let second = DateTime::from_timestamp(start.timestamp(), 0).context("a second")?;
        for scope in &event.scopes {
            let (cost, events) = sums.entry((scope, second)).or_default();
            *cost = cost.checked_add(event.cost.unwrap_or_default()).context("a sum")?;
            *events += 1;
        }
    }
    let mut scopes: Vec<&ScopeRef> = sums.keys().map(|(scope, _)| *scope).collect();
    scopes.dedup();
    let places: BTreeMap<&ScopeRef, i64> = scopes.iter().copied().zip(1..).collect();
    sqlx::query(SCOPES)
        .bind(scopes.iter().map(|scope| scope.kind()).collect::<Vec<&str>>())
        .bind(scopes.iter().map(|scope| scope.id()).collect::<Vec<&str>>())
        .bind(sums.keys().map(|(scope, _)| places[scope]).collect::<Vec<i64>>())
        .bind(sums.keys().map(|(_, second)| *second).collect::<Vec<DateTime<Utc>>>())
        .bind(sums.values().map(|(cost, _)| cost.to_string()).collect::<Vec<String>>())
        .bind(sums.values().map(|(_, events)| *events).collect::<Vec<i64>>())
        .execute(connection)
        .await?;
    Ok(())
}
