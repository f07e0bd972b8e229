//! The ways to make the same call, their rounds alternating.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use deadpool_redis::{Manager, Pool, Runtime};
use live_redis::LiveRedis;
use redis::Value;

use crate::benchmark::Benchmark;
use crate::common::load::{Measured, Runs, admit, rate};
use crate::common::program::Effort;
use crate::common::report::{Bound, Section};
use crate::common::server::Server;
use crate::common::shape::Shape;
use crate::job::Job;

/// Nodes of the organization. A call does not mind.
const NODES: usize = 1_321;
/// Callers at once, on every way but `redis-benchmark`, which has 50 connections with 16 commands each.
const CALLERS: usize = 256;

const HIT_BENCHMARK: &str = "hit script, redis-benchmark -P 16";
const HIT_RAW: &str = "hit script, redis crate's connection";
const HIT: &str = "hit script, multiplexed";
const BENCHMARK: &str = "admission, redis-benchmark -P 16";
const RAW: &str = "admission, redis crate's connection";
const POOL_16: &str = "admission, a pool of 16";
const POOL_32: &str = "admission, a pool of 32";
const MULTIPLEXED: &str = "admission, multiplexed";
const BATCHED: &str = "admission, micro-batched, one key";
const BATCHED_KEYS: &str = "admission, micro-batched, 256 keys";

/// What the multiplexed connection must reach of `redis-benchmark`.
const OF_BENCHMARK: Bound = Bound::AtLeast(0.85);
/// What it must reach of a pool.
const OF_POOL: Bound = Bound::AtLeast(2.0);
/// What micro-batches must reach of `redis-benchmark`.
const BATCHED_OF_BENCHMARK: Bound = Bound::AtLeast(3.0);

pub(crate) async fn measure(server: &Server, effort: Effort) -> Result<Section> {
    let benchmark = Benchmark::find(server).await?;
    if benchmark.is_none() {
        eprintln!(
            "there is no redis-benchmark (Debian: redis-tools) beside the server: its ratios are left out"
        );
    }
    let ways = Ways::new(server, benchmark, effort.span).await?;
    let mut runs = Runs::default();
    for round in 1..=effort.rounds {
        server.clear().await?;
        ways.round(server, &mut runs, &format!("connections {round}/{}", effort.rounds)).await?;
    }
    Ok(section_of(&runs, ways.benchmark.is_some()))
}

struct Ways {
    shape: Arc<Shape>,
    hit: Arc<Job>,
    admission: Arc<Job>,
    pools: [(&'static str, Pool); 2],
    benchmark: Option<Counted>,
    span: Duration,
}

/// `redis-benchmark` is told how many calls to make, not how long.
struct Counted {
    program: Benchmark,
    hits: u32,
    admissions: u32,
}

impl Ways {
    /// Everything once, so that scripts are loaded and connections warm.
    async fn new(server: &Server, benchmark: Option<Benchmark>, span: Duration) -> Result<Self> {
        let shape = Arc::new(Shape::of(NODES)?);
        let (hit, admission) = (Arc::new(Job::hit()), Arc::new(Job::admission(&shape.keys[0])?));
        for job in [&hit, &admission] {
            job.script().load_async(&mut server.plain.clone()).await?;
        }
        let benchmark = match benchmark {
            Some(program) => Some(Counted {
                hits: program.calls(server, &hit, span * 2).await?,
                admissions: program.calls(server, &admission, span * 2).await?,
                program,
            }),
            None => None,
        };
        let pools = [(POOL_16, pool(server, 16)?), (POOL_32, pool(server, 32)?)];
        let warm = Self { shape, hit, admission, pools, benchmark: None, span: Duration::from_millis(50) };
        warm.round(server, &mut Runs::default(), "warming up").await?;
        Ok(Self { benchmark, span, ..warm })
    }

    async fn round(&self, server: &Server, runs: &mut Runs, label: &str) -> Result<()> {
        let mut note = |name, measured: Measured| {
            eprintln!("{label}: {name}: {:.0}/s", measured.rate);
            runs.push(name, measured);
        };
        note(HIT_RAW, self.raw(server, &self.hit).await?);
        if let Some(Counted { program, hits, .. }) = &self.benchmark {
            note(HIT_BENCHMARK, program.measure(server, &self.hit, *hits).await?);
        }
        note(HIT, self.hits(server).await?);

        for (name, pool) in &self.pools {
            note(name, self.pooled(server, pool).await?);
        }
        note(RAW, self.raw(server, &self.admission).await?);
        note(MULTIPLEXED, self.admissions(server, &server.single, 1).await?);
        if let Some(Counted { program, admissions, .. }) = &self.benchmark {
            note(BENCHMARK, program.measure(server, &self.admission, *admissions).await?);
        }
        note(BATCHED, self.admissions(server, &server.batching, 1).await?);
        note(BATCHED_KEYS, self.admissions(server, &server.batching, CALLERS).await?);
        Ok(())
    }

    /// The counter's own operation.
    async fn hits(&self, server: &Server) -> Result<Measured> {
        let (redis, now) = (server.single.clone(), server.fresh_minute());
        rate(server, self.span, CALLERS, move |_, _| {
            let redis = redis.clone();
            async move {
                redis.hit_rpm("key-000000", now).await?;
                Ok(1)
            }
        })
        .await
    }

    /// Admissions of so many keys, as the client's options have it.
    async fn admissions(&self, server: &Server, redis: &LiveRedis, keys: usize) -> Result<Measured> {
        let (redis, shape, now) = (redis.clone(), self.shape.clone(), server.fresh_minute());
        rate(server, self.span, CALLERS, move |caller, nth| {
            let (redis, shape) = (redis.clone(), shape.clone());
            async move { admit(&redis, &shape.keys[caller % keys], nth, now).await }
        })
        .await
    }

    /// One multiplexed connection without this project's code: no arguments to pack, no answer to look at.
    async fn raw(&self, server: &Server, job: &Arc<Job>) -> Result<Measured> {
        let (job, plain) = (job.clone(), server.plain.clone());
        rate(server, self.span, CALLERS, move |_, _| {
            let (job, mut plain) = (job.clone(), plain.clone());
            async move {
                job.invocation().invoke_async::<Value>(&mut plain).await?;
                Ok(1)
            }
        })
        .await
    }

    /// A connection from the pool for each call, otherwise as [`Ways::raw`].
    async fn pooled(&self, server: &Server, pool: &Pool) -> Result<Measured> {
        let (job, pool) = (self.admission.clone(), pool.clone());
        rate(server, self.span, CALLERS, move |_, _| {
            let (job, pool) = (job.clone(), pool.clone());
            async move {
                let mut connection = pool.get().await?;
                let answer: Value = job.invocation().invoke_async(&mut connection).await?;
                ensure!(answer.as_sequence().is_some_and(|answer| answer.len() > 1), "refused: {answer:?}");
                Ok(1)
            }
        })
        .await
    }
}

fn pool(server: &Server, size: usize) -> Result<Pool> {
    Ok(Pool::builder(Manager::new(server.url())?).max_size(size).runtime(Runtime::Tokio1).build()?)
}

fn section_of(runs: &Runs, benchmark: bool) -> Section {
    let mut section = Section::new(
        "Ways to call",
        "256 callers, one worker thread; redis-benchmark: 50 connections, 16 commands each",
    );
    // What, against what, the ratio that it must reach.
    let compared: [(_, &[(_, _)]); 10] = [
        (HIT_BENCHMARK, &[]),
        (HIT_RAW, &[(HIT_BENCHMARK, None)]),
        (HIT, &[(HIT_BENCHMARK, Some(OF_BENCHMARK))]),
        (BENCHMARK, &[]),
        (POOL_16, &[(BENCHMARK, None)]),
        (POOL_32, &[(BENCHMARK, None)]),
        (RAW, &[(BENCHMARK, None)]),
        (MULTIPLEXED, &[(BENCHMARK, Some(OF_BENCHMARK)), (POOL_16, Some(OF_POOL)), (POOL_32, Some(OF_POOL))]),
        (BATCHED, &[(BENCHMARK, Some(BATCHED_OF_BENCHMARK)), (MULTIPLEXED, None)]),
        (BATCHED_KEYS, &[(BENCHMARK, None), (MULTIPLEXED, None)]),
    ];
    for (name, baselines) in compared {
        if !benchmark && [HIT_BENCHMARK, BENCHMARK].contains(&name) {
            continue;
        }
        let mut figure = runs.figure(name);
        for &(baseline, required) in baselines {
            if benchmark || ![HIT_BENCHMARK, BENCHMARK].contains(&baseline) {
                figure = figure.against(baseline, &runs.figure(baseline).series, required);
            }
        }
        section.push(figure);
    }
    section
}
