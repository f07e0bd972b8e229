//! What a read of an organization's new day costs while its whole day before is still queued, as after a flusher that was away over
//! midnight. More starts before an instant than the bound are counted and not read, so it must cost what any strict read costs.

use std::sync::Arc;

use anyhow::{Result, ensure};
use chrono::{DateTime, TimeDelta, Utc};
use live_redis::{LiveRedis, LiveRedisError, Options};
use spend_queue::PendingSpend;

use crate::common::load::rate_of_all;
use crate::common::program::Effort;
use crate::common::report::{Bound, Figure, Section, Series};
use crate::common::server::Server;
use crate::fill::{CALLERS, Outcome, enqueue};
use crate::traffic::{self, Callers, organization};

const QUEUED: usize = 300_000;
/// They begin this far apart: 300,000 of them fill 24 hours.
const APART: TimeDelta = TimeDelta::milliseconds(288);
/// Numbers of the events, apart from those that other sections queue.
const FIRST: usize = 10_000_000;
const PIECE: usize = 50_000;
const READERS: usize = 16;
const GROWTH: f64 = 1.5;

pub(crate) async fn measure(server: &Server, effort: Effort) -> Result<Section> {
    let mut section = Section::new(
        "A new day while the one before is queued",
        "server time of a call, INFO commandstats, 16 callers; one organization, each event with a start of its own",
    );
    let midnight = Utc::now();
    let day_before = midnight - TimeDelta::days(1);
    fill(server, day_before).await?;
    // With the bound that a host has.
    let redis = LiveRedis::open_with(server.url(), Options::default()).await?;
    let (mut refused, mut nothing_older) = (Series::default(), Series::default());
    for _ in 0..effort.rounds {
        refused.push(time(server, &redis, effort.calls, midnight, false).await?);
        nothing_older.push(time(server, &redis, effort.calls, day_before, true).await?);
    }
    eprintln!(
        "yesterday: refused {:.1} us, nothing older {:.1} us",
        refused.median(),
        nothing_older.median()
    );
    let figure = Figure::new(format!("pending_since, {QUEUED} places older: refused"), "us", refused);
    section.push(figure.against("pending_since, nothing older", &nothing_older, Some(Bound::AtMost(GROWTH))));
    Ok(section)
}

async fn fill(server: &Server, first: DateTime<Utc>) -> Result<()> {
    for from in (0..QUEUED).step_by(PIECE) {
        let mut events = Vec::with_capacity(PIECE);
        for nth in from..(from + PIECE).min(QUEUED) {
            let start = first + APART * i32::try_from(nth)?;
            let mut event = traffic::event(FIRST + nth, Callers::OneKey, start)?;
            event.started_at = Some(start);
            events.push(event.encode(start)?);
        }
        enqueue(server, &Arc::new(events), CALLERS, Outcome::Accepted).await?;
    }
    Ok(())
}

/// Server's microseconds for a read, all of which are answered or all refused.
async fn time(
    server: &Server,
    redis: &LiveRedis,
    calls: usize,
    since: DateTime<Utc>,
    answered: bool,
) -> Result<f64> {
    let redis = redis.clone();
    let measured = rate_of_all(server, calls, READERS, move |_| {
        let redis = redis.clone();
        async move {
            let is_answered = match redis.pending_since(&organization(0), since).await {
                Ok(_) => true,
                Err(LiveRedisError::Unproven(_)) => false,
                Err(error) => return Err(error.into()),
            };
            ensure!(
                is_answered == answered,
                "a read is refused where more starts are older than the bound, and only there"
            );
            Ok(())
        }
    })
    .await?;
    ensure!(measured.batch > 0.99, "one call a read");
    Ok(measured.micros)
}
