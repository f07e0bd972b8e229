//! Binary `COPY` straight into the events, after the ids were claimed.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bytes::BytesMut;
use chrono::{DateTime, Utc};
use postgres_types::{Json, Type};
use spend_queue::Entry;
use sqlx::{Connection, PgConnection};

use crate::rows::{CopyRows, Cost};
use crate::sums::{add_daily, add_scopes};
use crate::unnest::{claim, log};
use crate::work::Work;

const COPY: &str = include_str!("copy_events.sql");

pub(crate) struct Copy(pub(crate) PgConnection);

impl Copy {
    pub(crate) async fn commit(&mut self, work: &mut Work, batches: usize, size: usize) -> Result<Duration> {
        let mut spent = Duration::ZERO;
        for _ in 0..batches {
            let entries = work.entries(size)?;
            let started = Instant::now();
            let mut transaction = self.0.begin().await?;
            ensure!(claim(&mut transaction, &entries, work.now()).await? == size, "an id was taken");
            let rows = rows(&entries, work.now())?;
            let mut copy = transaction.copy_in_raw(COPY).await?;
            copy.send(&*rows).await?;
            copy.finish().await?;
            add_daily(&mut transaction, &entries).await?;
            add_scopes(&mut transaction, &entries).await?;
            log(&mut transaction, &entries, work.now()).await?;
            transaction.commit().await?;
            spent += started.elapsed();
        }
        Ok(spent)
    }
}

fn rows(entries: &[Entry], now: DateTime<Utc>) -> Result<BytesMut> {
    let mut rows = CopyRows::new(entries.len());
    for Entry { event, .. } in entries {
        let scopes: Vec<String> = event.scopes.iter().map(ToString::to_string).collect();
        let first_token = event.time_to_first_token_ms.map(i64::try_from).transpose()?;
        rows.push(&[
            (&event.request_id, Type::TEXT),
            (&event.started_at, Type::TIMESTAMPTZ),
            (&event.started_at, Type::TIMESTAMPTZ),
            (&event.ended_at, Type::TIMESTAMPTZ),
            (&now, Type::TIMESTAMPTZ),
            (&event.organization_id, Type::TEXT),
            (&event.team_id, Type::TEXT),
            (&event.project_id, Type::TEXT),
            (&event.user_id, Type::TEXT),
            (&event.key_id, Type::TEXT),
            (&scopes, Type::TEXT_ARRAY),
            (&event.provider, Type::TEXT),
            (&event.model, Type::TEXT),
            (&event.call_type, Type::TEXT),
            (&event.status, Type::TEXT),
            (&i64::try_from(event.prompt_tokens)?, Type::INT8),
            (&i64::try_from(event.completion_tokens)?, Type::INT8),
            (&i64::try_from(event.cached_tokens)?, Type::INT8),
            (&Cost(event.cost.unwrap_or_default().picos()), Type::NUMERIC),
            (&first_token, Type::INT8),
            (&event.session_id, Type::TEXT),
            (&event.cache_hit, Type::BOOL),
            (&Json(&event.metadata), Type::JSONB),
            (&Json(&event.extra), Type::JSONB),
        ])?;
    }
    Ok(rows.finish())
}
