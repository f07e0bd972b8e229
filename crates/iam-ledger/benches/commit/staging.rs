//! Binary `COPY` into a temporary table, then one string of statements over it.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use bytes::{BufMut, BytesMut};
use chrono::{DateTime, Utc};
use postgres_types::{IsNull, Json, ToSql, Type};
use spend_queue::Entry;
use sqlx::{Connection, Executor, PgConnection};

use crate::work::Work;

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
    let mut rows = BytesMut::with_capacity(entries.len() * 600);
    rows.put_slice(b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0");
    for entry in entries {
        let event = &entry.event;
        let scopes: Vec<String> = event.scopes.iter().map(ToString::to_string).collect();
        let check = entry.payload_check();
        let first_token = event.time_to_first_token_ms.map(i64::try_from).transpose()?;
        let fields: [(&(dyn ToSql + Sync), Type); 25] = [
            (&i64::try_from(entry.seq)?, Type::INT8),
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
            (&Cost(event.cost.map_or(0, spend_queue::Usd::picos)), Type::NUMERIC),
            (&first_token, Type::INT8),
            (&event.session_id, Type::TEXT),
            (&event.cache_hit, Type::BOOL),
            (&Json(&event.metadata), Type::JSONB),
            (&Json(&event.extra), Type::JSONB),
        ];
        rows.put_i16(25);
        for (value, column) in fields {
            let at = rows.len();
            rows.put_i32(-1);
            if let IsNull::No =
                value.to_sql_checked(&column, &mut rows).map_err(|error| anyhow!("{error}"))?
            {
                let length = i32::try_from(rows.len() - at - 4)?;
                rows[at..at + 4].copy_from_slice(&length.to_be_bytes());
            }
        }
    }
    rows.put_i16(-1);
    Ok(rows)
}

/// Picodollars as `numeric`: five groups of four digits, three of them behind the point. Enough for the bench's costs.
#[derive(Debug)]
struct Cost(i128);

impl ToSql for Cost {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut BytesMut,
    ) -> std::result::Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        for header in [5_i16, 1, 0, 12] {
            out.put_i16(header);
        }
        for power in (0..5).rev() {
            out.put_i16(i16::try_from(self.0 / 10_000_i128.pow(power) % 10_000)?);
        }
        Ok(IsNull::No)
    }

    postgres_types::accepts!(NUMERIC);
    postgres_types::to_sql_checked!();
}
