//! What a strict read costs the server, by how much is queued.

use anyhow::{Result, ensure};
use chrono::{DateTime, TimeDelta, Utc};
use live_redis::LiveRedis;
use spend_queue::{PendingQuery, PendingSpend, ScopeRef};

use crate::common::load::rate_of_all;
use crate::common::program::Effort;
use crate::common::report::{Bound, Figure, Section, Series};
use crate::common::server::Server;
use crate::fill::fill;
use crate::traffic::organization;

/// Entries in the queue that stays as it is.
const FEW: usize = 10;
/// Entries in the other one, and whether a `--quick` run gets so far.
const SIZES: [(usize, bool); 3] = [(1_000, true), (100_000, true), (1_000_000, false)];
/// What a read may cost in the longer queue against the short one. The work is the same; the room is for what lies in the
/// processor's cache and for noise.
const GROWTH: f64 = 1.5;
/// Callers who keep the server awake.
const CALLERS: usize = 16;
/// Milliseconds after the first start; an organization has about one place in the index by time for each.
const OLDER_MILLIS: [i64; 3] = [100, 1_000, 10_000];

const PENDING: &str = "pending of an organization";
const PENDING_KEY: &str = "pending_key";
const SINCE: &str = "pending_since, nothing older";
/// What a path of four budgets with five beside it asks for.
const TOGETHER: &str = "pending_all of 9 amounts";
const SINGLY: &str = "the 9 amounts by single reads";
/// What the nine may cost together against single reads: most of a single read is the proof of the index.
const SHARE: f64 = 0.33;

#[derive(Debug, Clone, Copy)]
enum Read {
    Pending,
    Key,
    Since(i64),
    Together,
    Singly,
}

pub(crate) async fn measure(few: &Server, many: &Server, effort: Effort) -> Result<Section> {
    let hour = Utc::now();
    let mut section = Section::new(
        "Strict reads",
        "server time of a call, INFO commandstats, 16 callers; against a queue of 10 entries on another server",
    );
    fill(few, 0..FEW, hour).await?;
    let mut filled = 0;
    for (size, quick) in SIZES {
        if !quick && effort.is_quick() {
            continue;
        }
        fill(many, filled..size, hour).await?;
        filled = size;
        for (name, read) in [(PENDING, Read::Pending), (PENDING_KEY, Read::Key), (SINCE, Read::Since(0))] {
            let (mut short, mut long) = (Series::default(), Series::default());
            for _ in 0..effort.rounds {
                short.push(time(few, effort.calls, read, hour).await?);
                long.push(time(many, effort.calls, read, hour).await?);
            }
            eprintln!(
                "reads: {name}, {size} entries: {:.1} us, {FEW}: {:.1} us",
                long.median(),
                short.median()
            );
            let figure = Figure::new(format!("{name}, {size} entries"), "us", long);
            section.push(figure.against(&format!("{FEW} entries"), &short, Some(Bound::AtMost(GROWTH))));
        }
    }
    let (mut together, mut singly) = (Series::default(), Series::default());
    for _ in 0..effort.rounds {
        together.push(time(many, effort.calls, Read::Together, hour).await?);
        singly.push(time(many, effort.calls / 4, Read::Singly, hour).await?);
    }
    eprintln!("reads: {TOGETHER}: {:.1} us, {SINGLY}: {:.1} us", together.median(), singly.median());
    section.push(Figure::new(SINGLY, "us", singly.clone()));
    section.push(Figure::new(TOGETHER, "us", together).against(SINGLY, &singly, Some(Bound::AtMost(SHARE))));
    let (mut none, mut older) = (Series::default(), OLDER_MILLIS.map(|_| Series::default()));
    for _ in 0..effort.rounds {
        none.push(time(many, effort.calls, Read::Since(0), hour).await?);
        for (series, millis) in older.iter_mut().zip(OLDER_MILLIS) {
            series.push(time(many, effort.calls / 20, Read::Since(millis), hour).await?);
        }
    }
    for (series, millis) in older.into_iter().zip(OLDER_MILLIS) {
        let places = places(many, hour, millis).await?;
        let name = format!("pending_since, {places} places older");
        section.push(Figure::new(name, "us", series).against(SINCE, &none, None));
    }
    Ok(section)
}

/// Server's microseconds for what one caller asks for.
async fn time(server: &Server, calls: usize, read: Read, hour: DateTime<Utc>) -> Result<f64> {
    let redis = server.batching.clone();
    let measured = rate_of_all(server, calls, CALLERS, move |_| call(redis.clone(), read, hour)).await?;
    let scripts = if matches!(read, Read::Singly) { 9.0 } else { 1.0 };
    ensure!(measured.batch * scripts > 0.99, "one call a read");
    Ok(measured.micros * scripts)
}

async fn call(redis: LiveRedis, read: Read, hour: DateTime<Utc>) -> Result<()> {
    match read {
        Read::Pending => {
            redis.pending(&ScopeRef::new("organization", organization(0))?).await?;
        }
        Read::Key => {
            redis.pending_key("key-000000").await?;
        }
        Read::Since(millis) => {
            redis.pending_since(&organization(0), hour + TimeDelta::milliseconds(millis)).await?;
        }
        Read::Together => {
            redis.pending_all(&of_a_path(hour)?).await?;
        }
        Read::Singly => {
            for query in of_a_path(hour)? {
                redis.pending_all(&[query]).await?;
            }
        }
    }
    Ok(())
}

fn of_a_path(hour: DateTime<Utc>) -> Result<Vec<PendingQuery>> {
    let scope = |kind: &str, id: &str| ScopeRef::new(kind, id).map(PendingQuery::Scope);
    let mut queries = vec![
        PendingQuery::Organization { id: organization(0), since: hour },
        PendingQuery::Key("key-000000".to_owned()),
        scope("user", "user-000000")?,
    ];
    for team in 0..6 {
        queries.push(scope("team", &format!("team-{team:06}"))?);
    }
    Ok(queries)
}

/// How many places of the index lie before the instant.
async fn places(server: &Server, hour: DateTime<Utc>, millis: i64) -> Result<u64> {
    let place = |at: i64| format!("{}\u{1f}{at:015}", organization(0));
    let key = format!("{}:{{0}}:since", server.batching.options().prefix);
    let mut count = redis::cmd("ZLEXCOUNT");
    count.arg(key).arg(format!("[{}", place(0)));
    count.arg(format!("({}", place(hour.timestamp_millis() + millis)));
    Ok(count.query_async(&mut server.plain.clone()).await?)
}
