//! One array a column through `UNNEST`: one statement for the events, with text to parse and arrays to take apart.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use chrono::{DateTime, Utc};
use spend_queue::Entry;
use sqlx::{Connection, PgConnection};

use crate::sums::{add_daily, add_scopes};
use crate::work::{Work, link};

const CLAIM: &str = include_str!("../../queries/claim_requests.sql");
const EVENTS: &str = include_str!("unnest_events.sql");
const LOG: &str = include_str!("../../queries/log_flush.sql");
/// Between the scopes of one event. It is a control character, which no scope can contain.
const SCOPE_SEPARATOR: &str = "\u{1f}";

pub(crate) struct Unnest(pub(crate) PgConnection);

impl Unnest {
    pub(crate) async fn commit(&mut self, work: &mut Work, batches: usize, size: usize) -> Result<Duration> {
        let mut spent = Duration::ZERO;
        for _ in 0..batches {
            let entries = work.entries(size)?;
            let started = Instant::now();
            let mut transaction = self.0.begin().await?;
            ensure!(claim(&mut transaction, &entries, work.now()).await? == size, "an id was taken");
            insert_events(&mut transaction, &entries, work.now()).await?;
            add_daily(&mut transaction, &entries).await?;
            add_scopes(&mut transaction, &entries).await?;
            log(&mut transaction, &entries, work.now()).await?;
            transaction.commit().await?;
            spent += started.elapsed();
        }
        Ok(spent)
    }
}

/// Claims the ids in their order; returns how many are new.
pub(crate) async fn claim(
    connection: &mut PgConnection,
    entries: &[Entry],
    now: DateTime<Utc>,
) -> Result<usize> {
    let mut sorted: Vec<&Entry> = entries.iter().collect();
    sorted.sort_by(|one, other| one.event.request_id.cmp(&other.event.request_id));
    let ids: Vec<&str> = sorted.iter().map(|entry| &*entry.event.request_id).collect();
    let checks: Vec<Vec<u8>> = sorted.iter().map(|entry| entry.payload_check().as_bytes().to_vec()).collect();
    let claimed: Vec<String> =
        sqlx::query_scalar(CLAIM).bind(ids).bind(checks).bind(now).fetch_all(connection).await?;
    Ok(claimed.len())
}

pub(crate) async fn log(connection: &mut PgConnection, entries: &[Entry], now: DateTime<Utc>) -> Result<()> {
    let [first, .., last] = entries else { return Ok(()) };
    let (first, last) = (link(first)?, link(last)?);
    sqlx::query(LOG)
        .bind(0_i32)
        .bind(i64::try_from(first.seq)?)
        .bind(i64::try_from(last.seq)?)
        .bind(last.chain.as_bytes().as_slice())
        .bind(i32::try_from(entries.len())?)
        .bind(now)
        .execute(connection)
        .await?;
    Ok(())
}

async fn insert_events(connection: &mut PgConnection, entries: &[Entry], now: DateTime<Utc>) -> Result<()> {
    macro_rules! column {
        ($event:ident => $value:expr) => {
            entries.iter().map(|Entry { event: $event, .. }| $value).collect::<Vec<_>>()
        };
    }
    let counts = |part: fn(&Entry) -> u64| {
        entries.iter().map(|entry| i64::try_from(part(entry))).collect::<Result<Vec<i64>, _>>()
    };
    let scopes = column!(event => event.scopes.iter().map(ToString::to_string).collect::<Vec<_>>().join(SCOPE_SEPARATOR));
    let first_token =
        entries.iter().map(|entry| entry.event.time_to_first_token_ms.map(i64::try_from).transpose());
    let metadata = entries.iter().map(|entry| serde_json::to_string(&entry.event.metadata));
    let extra = entries.iter().map(|entry| serde_json::to_string(&entry.event.extra));
    sqlx::query(EVENTS)
        .bind(now)
        .bind(column!(event => &*event.request_id))
        .bind(column!(event => event.started_at))
        .bind(column!(event => event.started_at))
        .bind(column!(event => event.ended_at))
        .bind(column!(event => event.organization_id.as_deref()))
        .bind(column!(event => event.team_id.as_deref()))
        .bind(column!(event => event.project_id.as_deref()))
        .bind(column!(event => event.user_id.as_deref()))
        .bind(column!(event => event.key_id.as_deref()))
        .bind(scopes)
        .bind(column!(event => &*event.provider))
        .bind(column!(event => &*event.model))
        .bind(column!(event => &*event.call_type))
        .bind(column!(event => &*event.status))
        .bind(counts(|entry| entry.event.prompt_tokens)?)
        .bind(counts(|entry| entry.event.completion_tokens)?)
        .bind(counts(|entry| entry.event.cached_tokens)?)
        .bind(
            entries
                .iter()
                .map(|entry| entry.event.cost.map(|cost| cost.counter()).transpose())
                .collect::<Result<Vec<_>, _>>()?,
        )
        .bind(first_token.collect::<Result<Vec<_>, _>>()?)
        .bind(column!(event => event.session_id.as_deref()))
        .bind(column!(event => event.cache_hit))
        .bind(metadata.collect::<Result<Vec<String>, _>>()?)
        .bind(extra.collect::<Result<Vec<String>, _>>()?)
        .execute(connection)
        .await?;
    Ok(())
}
