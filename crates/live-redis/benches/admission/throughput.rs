//! Decisions a second over one multiplexed connection.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use rate_plan::RatePlan;

use crate::common::floor::{commands, one_hincrby, pipelined};
use crate::common::load::{Measured, Runs, admit, rate};
use crate::common::program::Effort;
use crate::common::report::{Bound, Section};
use crate::common::server::{Server, partition};
use crate::common::shape::Shape;

/// Nodes of the tree. The fast path does not mind; the keys of one organization are drawn from it.
const NODES: usize = 1_321;
/// Callers who share the connection, where nothing else is said.
const CALLERS: usize = 64;
/// Micro-batches that are under way at once.
const IN_FLIGHT: usize = 16;
/// Callers who leave batching to the client.
const NATURAL_CALLERS: usize = 256;
/// Draws of different keys that a run goes round.
const DRAWS: usize = 64;

const PING_ALONE: &str = "PING, one caller";
const PING: &str = "PING, pipelined";
const FLOOR_ALONE: &str = "one-HINCRBY script, one caller";
const FLOOR: &str = "one-HINCRBY script, pipelined";
const FAST_ALONE: &str = "fast path, one caller";
const MULTIPLEXED: &str = "fast path, 64 callers, not batched";
const BATCH_8: &str = "fast path, 8 callers a call, one key";
const BATCH_32: &str = "fast path, 32 callers a call, one key";
const BATCH_32_KEYS: &str = "fast path, 32 callers a call, 32 keys";
const BATCH_32_NEAR: &str = "fast path, 32 callers a call, 32 keys of 2 teams";
const NATURAL: &str = "fast path, 256 callers, one key";
const NATURAL_KEYS: &str = "fast path, 256 callers, 256 keys";

pub(crate) async fn measure(server: &Server, effort: Effort) -> Result<Section> {
    let load = Load::new(server, effort.span).await?;
    let mut runs = Runs::default();
    for round in 1..=effort.rounds {
        server.clear().await?;
        load.round(server, &mut runs, &format!("throughput {round}/{}", effort.rounds)).await?;
    }
    Ok(section_of(&runs))
}

/// What every measurement is made of.
struct Load {
    shape: Arc<Shape>,
    span: Duration,
}

/// Requests, drawn once so that drawing is not measured.
type Draws = Arc<Vec<Vec<(RatePlan, i64)>>>;

impl Load {
    async fn new(server: &Server, span: Duration) -> Result<Self> {
        let load = Self { shape: Arc::new(Shape::of(NODES)?), span };
        // Everything once, so that scripts are loaded and connections warm.
        let warm = Self { shape: load.shape.clone(), span: Duration::from_millis(50) };
        warm.round(server, &mut Runs::default(), "warming up").await?;
        Ok(load)
    }

    async fn round(&self, server: &Server, runs: &mut Runs, label: &str) -> Result<()> {
        let ping = redis::cmd("PING");
        let increment = one_hincrby(server).await?;
        let mut note = |name, measured: Measured| {
            eprintln!("{label}: {name}: {:.0}/s", measured.rate);
            runs.push(name, measured);
        };
        note(PING_ALONE, commands(server, self.span, &ping, 1).await?);
        note(PING, pipelined(server, self.span, &ping).await?);
        note(FLOOR_ALONE, commands(server, self.span, &increment, 1).await?);
        note(FAST_ALONE, self.single(server, 1).await?);
        // The floor is measured before and after what is compared with it, and the better counts.
        let before = pipelined(server, self.span, &increment).await?;
        let one: Draws = Arc::new(vec![self.shape.same(32)]);
        note(BATCH_32, self.batches(server, &one).await?);
        let many: Draws = Arc::new((0..DRAWS).map(|_| self.shape.different(32)).collect());
        note(BATCH_32_KEYS, self.batches(server, &many).await?);
        let near: Draws = Arc::new(vec![self.shape.neighbours(32)]);
        note(BATCH_32_NEAR, self.batches(server, &near).await?);
        note(FLOOR, before.better(pipelined(server, self.span, &increment).await?));
        let eight: Draws = Arc::new(vec![self.shape.same(8)]);
        note(BATCH_8, self.batches(server, &eight).await?);
        note(MULTIPLEXED, self.single(server, CALLERS).await?);
        note(NATURAL, self.natural(server, 1).await?);
        note(NATURAL_KEYS, self.natural(server, NATURAL_CALLERS).await?);
        Ok(())
    }

    /// Callers of random keys, each admission a call of its own.
    async fn single(&self, server: &Server, callers: usize) -> Result<Measured> {
        let (redis, shape, now) = (server.single.clone(), self.shape.clone(), server.fresh_minute());
        rate(server, self.span, callers, move |_, nth| {
            let (redis, shape) = (redis.clone(), shape.clone());
            async move { admit(&redis, shape.any_key(), nth, now).await }
        })
        .await
    }

    /// So many callers of so many keys, who leave batching to the client.
    async fn natural(&self, server: &Server, keys: usize) -> Result<Measured> {
        let (redis, shape, now) = (server.batching.clone(), self.shape.clone(), server.fresh_minute());
        rate(server, self.span, NATURAL_CALLERS, move |caller, nth| {
            let (redis, shape) = (redis.clone(), shape.clone());
            async move { admit(&redis, &shape.keys[caller % keys], nth, now).await }
        })
        .await
    }

    /// Batches of a size that is set by hand.
    async fn batches(&self, server: &Server, draws: &Draws) -> Result<Measured> {
        let partition: Arc<str> = partition(&self.shape.tree).into();
        let (redis, draws, now) = (server.single.clone(), draws.clone(), server.fresh_minute());
        rate(server, self.span, IN_FLIGHT, move |caller, nth| {
            let (redis, draws, partition) = (redis.clone(), draws.clone(), partition.clone());
            async move {
                let requests = &draws[(caller + nth) % draws.len()];
                let decided = redis.admit_rate_plans(&partition, requests, now).await?;
                for admission in &decided {
                    let admitted = admission.as_ref().is_ok_and(live_redis::Admission::is_admitted);
                    ensure!(admitted, "limits are too low for the bench");
                }
                Ok(decided.len())
            }
        })
        .await
    }
}

fn section_of(runs: &Runs) -> Section {
    let mut section =
        Section::new("Throughput", "one connection, one worker thread; pipelined: the better of two ways");
    for name in [PING_ALONE, PING, FLOOR_ALONE, FLOOR] {
        section.push(runs.figure(name));
    }
    let compared = [
        (FAST_ALONE, FLOOR_ALONE, None),
        (MULTIPLEXED, FLOOR, None),
        (BATCH_8, FLOOR, None),
        (BATCH_32, FLOOR, Some(Bound::AtLeast(1.0))),
        (BATCH_32_KEYS, FLOOR, Some(Bound::AtLeast(0.5))),
        (BATCH_32_NEAR, FLOOR, Some(Bound::AtLeast(0.5))),
        (NATURAL, FLOOR, None),
        (NATURAL_KEYS, FLOOR, None),
    ];
    for (name, floor, required) in compared {
        section.push(runs.figure(name).against(floor, &runs.figure(floor).series, required));
    }
    section
}
