//! One transaction an event, with parameterized statements: what a flusher does that thinks of one event at a time.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use chrono::{DateTime, Utc};
use spend_queue::Entry;
use sqlx::types::Json;
use sqlx::{Connection, PgConnection};

use crate::work::Work;

pub(crate) struct RowByRow(pub(crate) PgConnection);

impl RowByRow {
    pub(crate) async fn commit(&mut self, work: &mut Work, events: usize) -> Result<Duration> {
        let entries = work.entries(events)?;
        let started = Instant::now();
        for entry in &entries {
            let mut transaction = self.0.begin().await?;
            settle(&mut transaction, entry, work.now()).await?;
            transaction.commit().await?;
        }
        Ok(started.elapsed())
    }
}

async fn settle(connection: &mut PgConnection, entry: &Entry, now: DateTime<Utc>) -> Result<()> {
    let event = &entry.event;
    sqlx::query(include_str!("row_claim.sql"))
        .bind(&event.request_id)
        .bind(entry.payload_check().as_bytes().as_slice())
        .bind(now)
        .fetch_one(&mut *connection)
        .await
        .context("the id was taken")?;
    let scopes: Vec<String> = event.scopes.iter().map(ToString::to_string).collect();
    let cost = event.cost.map(|cost| cost.to_string());
    sqlx::query(include_str!("row_event.sql"))
        .bind(&event.request_id)
        .bind(event.started_at)
        .bind(event.ended_at)
        .bind(now)
        .bind(&event.organization_id)
        .bind(&event.team_id)
        .bind(&event.project_id)
        .bind(&event.user_id)
        .bind(&event.key_id)
        .bind(&scopes)
        .bind(&event.provider)
        .bind(&event.model)
        .bind(&event.call_type)
        .bind(&event.status)
        .bind(i64::try_from(event.prompt_tokens)?)
        .bind(i64::try_from(event.completion_tokens)?)
        .bind(i64::try_from(event.cached_tokens)?)
        .bind(&cost)
        .bind(event.time_to_first_token_ms.map(i64::try_from).transpose()?)
        .bind(&event.session_id)
        .bind(event.cache_hit)
        .bind(Json(&event.metadata))
        .bind(Json(&event.extra))
        .execute(&mut *connection)
        .await?;
    sqlx::query(include_str!("row_daily.sql"))
        .bind(event.started_at.context("every event of the bench has a start")?.date_naive())
        .bind(event.organization_id.as_deref().unwrap_or_default())
        .bind(event.team_id.as_deref().unwrap_or_default())
        .bind(event.project_id.as_deref().unwrap_or_default())
        .bind(event.user_id.as_deref().unwrap_or_default())
        .bind(event.key_id.as_deref().unwrap_or_default())
        .bind(&event.provider)
        .bind(&event.model)
        .bind(i64::try_from(event.prompt_tokens)?)
        .bind(i64::try_from(event.completion_tokens)?)
        .bind(i64::try_from(event.cached_tokens)?)
        .bind(&cost)
        .execute(&mut *connection)
        .await?;
    for scope in &event.scopes {
        sqlx::query(include_str!("row_scope.sql"))
            .bind(scope.kind())
            .bind(scope.id())
            .bind(event.started_at)
            .bind(&cost)
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}
