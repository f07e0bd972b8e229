//! Binary `COPY` into a temporary table, then one string of statements over it.

use std::time::{Duration, Instant};

use anyhow::Result;
use bytes::BytesMut;
use chrono::{DateTime, Utc};
use postgres_types::{Json, Type};
use spend_queue::Entry;
use sqlx::{Connection, Executor, PgConnection};

use crate::rows::{CopyRows, Cost};
use crate::work::{Work, link};

pub(crate) const TABLE: &str = include_str!("staging_table.sql");
pub(crate) const SETTLE: &str = include_str!("staging_settle.sql");
const COPY: &str = "copy staging from stdin (format binary)";

pub(crate) struct Staging(PgConnection);

impl Staging {
    pub(crate) async fn new(mut connection: PgConnection) -> Result<Self> {
        connection.execute(TABLE).await?;
        Ok(Self(connection))
    }

    pub(crate) async fn commit(&mut self, work: &mut Work, batches: usize, size: usize) -> Result<Duration> {
        let mut spent = Duration::ZERO;
        for _ in 0..batches {
            let entries = work.entries(size)?;
            let started = Instant::now();
            let mut transaction = self.0.begin().await?;
            let rows = rows(&entries, work.now())?;
            let mut copy = transaction.copy_in_raw(COPY).await?;
            copy.send(&*rows).await?;
            copy.finish().await?;
            (&mut *transaction).execute(SETTLE).await?;
            transaction.commit().await?;
            spent += started.elapsed();
        }
        Ok(spent)
    }
}

fn rows(entries: &[Entry], now: DateTime<Utc>) -> Result<BytesMut> {
    let mut rows = CopyRows::new(entries.len());
    for entry in entries {
        let event = &entry.event;
        let scopes: Vec<String> = event.scopes.iter().map(ToString::to_string).collect();
        let check = entry.payload_check();
        let first_token = event.time_to_first_token_ms.map(i64::try_from).transpose()?;
        rows.push(&[
            (&i64::try_from(link(entry)?.seq)?, Type::INT8),
            (&event.request_id, Type::TEXT),
            (&check.as_bytes().as_slice(), Type::BYTEA),
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
