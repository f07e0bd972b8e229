//! What the server's memory holds: remembered request ids, and what is queued.

use std::sync::Arc;

use anyhow::{Context, Result};
use chrono::Utc;
use spend_queue::RequestDigest;

use crate::common::report::{Bound, Figure, Section, Series};
use crate::common::server::Server;
use crate::fill::{CALLERS, Outcome, enqueue, fill};
use crate::traffic::{free, request_id};

const IDS: usize = 1_000_000;
/// Ids between two looks at the queue's length.
const PIECE: usize = 50_000;
const ENTRIES: usize = 100_000;
/// Bytes of memory a remembered id may take.
const BYTES_AN_ID: f64 = 28.0;

pub(crate) async fn measure(server: &Server) -> Result<Section> {
    let mut section = Section::new(
        "Memory",
        "used_memory before and after, divided; measured once, since it hardly varies",
    );
    let before = used(server).await?;
    fill(server, 0..ENTRIES, Utc::now()).await?;
    let queued = (used(server).await? - before) / f64::from(u32::try_from(ENTRIES)?);
    server.clear().await?;

    let count = f64::from(u32::try_from(IDS)?);
    let before = used(server).await?;
    plain_hash(server).await?;
    let plain = (used(server).await? - before) / count;
    server.clear().await?;

    let before = used(server).await?;
    remember(server).await?;
    let remembered = (used(server).await? - before) / count;
    server.clear().await?;

    let (mut plain_series, mut series, mut queued_series) =
        (Series::default(), Series::default(), Series::default());
    plain_series.push(plain);
    series.push(remembered);
    queued_series.push(queued);
    let floor = "one hash, request id -> check";
    section.push(Figure::new(floor, "bytes", plain_series.clone()).note(format!("{IDS} ids")));
    section.push(
        Figure::new("a remembered id", "bytes", series)
            .against(floor, &plain_series, None)
            .required(Bound::AtMost(BYTES_AN_ID))
            .note(format!("{IDS} ids")),
    );
    section.push(
        Figure::new("a queued entry, its id and counters included", "bytes", queued_series)
            .note(format!("{ENTRIES} entries")),
    );
    Ok(section)
}

/// Enqueues them, and takes them off by dropping the list, which leaves the ids as an acknowledgement does.
async fn remember(server: &Server) -> Result<()> {
    let prefix = &server.batching.options().prefix;
    for from in (0..IDS).step_by(PIECE) {
        enqueue(server, &Arc::new(free(from..from + PIECE)?), CALLERS, Outcome::Accepted).await?;
        let mut drop_all = redis::cmd("DEL");
        for part in ["queue", "state"] {
            drop_all.arg(format!("{prefix}:{{0}}:{part}"));
        }
        drop_all.query_async::<()>(&mut server.plain.clone()).await?;
    }
    Ok(())
}

/// The obvious way: one hash of whole ids.
async fn plain_hash(server: &Server) -> Result<()> {
    for from in (0..IDS).step_by(PIECE) {
        let mut set = redis::cmd("HSET");
        set.arg("plain");
        for nth in from..from + PIECE {
            let id = request_id(nth);
            set.arg(&id).arg(&RequestDigest::of(&id).as_bytes()[..4]);
        }
        set.query_async::<()>(&mut server.plain.clone()).await?;
    }
    Ok(())
}

async fn used(server: &Server) -> Result<f64> {
    let info: String = redis::cmd("INFO").arg("memory").query_async(&mut server.plain.clone()).await?;
    let bytes = info.lines().find_map(|line| line.strip_prefix("used_memory:"));
    Ok(bytes.context("INFO memory names no used_memory")?.trim().parse()?)
}
