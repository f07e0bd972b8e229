//! How long the server is held up when the index of pending spend is in doubt: a strict read that goes through the
//! entries, and making the index anew.

use anyhow::{Result, ensure};
use chrono::Utc;
use redis::Script;
use spend_queue::{PendingSpend, Reindexed, ScopeRef, ShardCount, SpendQueue};

use crate::common::program::Effort;
use crate::common::report::{Figure, Section, Series};
use crate::common::server::Server;
use crate::common::witness::Witness;
use crate::fill::fill;
use crate::traffic::organization;

/// Entries in the queue; the default bound is 20,000.
const SIZES: [usize; 3] = [10_000, 100_000, 200_000];
/// The least that going through the entries can cost: reading them and looking at none.
const READ_ALL: &str = "for from = 0, redis.call('LLEN', KEYS[1]) - 1, 100 do redis.call('LRANGE', KEYS[1], from, from + 99) end";

/// Milliseconds.
#[derive(Default)]
struct HeldUp {
    floor: Series,
    scan: Series,
    scan_waited: Series,
    reindex: Series,
    reindex_waited: Series,
}

pub(crate) async fn measure(server: &Server, effort: Effort) -> Result<Section> {
    let mut section = Section::new(
        "An index in doubt",
        "server time of one script call; the floor is a script that reads all entries and looks at none",
    );
    let hour = Utc::now();
    let mut filled = 0;
    for size in SIZES {
        if effort.is_quick() && size > SIZES[1] {
            continue;
        }
        fill(server, filled..size, hour).await?;
        filled = size;
        let mut held = HeldUp::default();
        for round in 1..=effort.rounds {
            once(server, size, &mut held).await?;
            let (scan, reindex) = (held.scan.last(), held.reindex.last());
            eprintln!(
                "doubt {round}/{}: {size} entries: scan {scan:.1} ms, reindex {reindex:.1} ms",
                effort.rounds
            );
        }
        let floor = format!("LRANGE, {size} entries");
        section.push(Figure::new(floor.clone(), "ms", held.floor.clone()));
        section.push(Figure::new(format!("pending in doubt, {size} entries"), "ms", held.scan).against(
            &floor,
            &held.floor,
            None,
        ));
        section.push(Figure::new(format!("longest PING meanwhile, {size} entries"), "ms", held.scan_waited));
        section.push(Figure::new(format!("reindex, {size} entries"), "ms", held.reindex).against(
            &floor,
            &held.floor,
            None,
        ));
        section.push(Figure::new(format!("longest PING during reindex, {size}"), "ms", held.reindex_waited));
    }
    Ok(section)
}

async fn once(server: &Server, size: usize, held: &mut HeldUp) -> Result<()> {
    let (redis, mut plain) = (&server.batching, server.plain.clone());
    let prefix = &redis.options().prefix;
    let script = Script::new(READ_ALL);
    script.load_async(&mut plain).await?;
    server.reset_statistics().await?;
    script.key(format!("{prefix}:{{0}}:queue")).invoke_async::<()>(&mut plain).await?;
    held.floor.push(spent(server).await?);

    let mut doubt = redis::cmd("HSET");
    doubt.arg(format!("{prefix}:{{0}}:state")).arg("doubt").arg("bench");
    doubt.query_async::<()>(&mut plain).await?;
    let scope = ScopeRef::new("organization", organization(0))?;
    let witness = Witness::start(server.url())?;
    server.reset_statistics().await?;
    let pending = redis.pending(&scope).await?;
    held.scan_waited.push(witness.stop()?);
    held.scan.push(spent(server).await?);

    let witness = Witness::start(server.url())?;
    server.reset_statistics().await?;
    let reindexed = redis.reindex(ShardCount::ONE.shard_of("any")).await?;
    held.reindex_waited.push(witness.stop()?);
    held.reindex.push(spent(server).await?);
    ensure!(reindexed == Reindexed::Rebuilt { entries: u64::try_from(size)? }, "{reindexed:?}");
    ensure!(redis.pending(&scope).await? == pending, "the index does not say what the entries say");
    Ok(())
}

async fn spent(server: &Server) -> Result<f64> {
    Ok(server.calls("evalsha").await?.micros / 1_000.0)
}
