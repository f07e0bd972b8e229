//! Callers on one server, and what they get done.

use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use chrono::{DateTime, Utc};
use live_redis::LiveRedis;
use rate_plan::RatePlan;
use tokio::task::JoinSet;

use super::report::{Figure, Series};
use super::server::Server;
use super::shape::tokens;

/// One admission of a key.
pub(crate) async fn admit(
    redis: &LiveRedis,
    plan: &RatePlan,
    nth: usize,
    now: DateTime<Utc>,
) -> Result<usize> {
    let admission = redis.admit_rate_plan(plan, tokens(nth), now).await?;
    ensure!(admission.is_admitted(), "limits are too low for the bench");
    Ok(1)
}

/// What a second under load has shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured {
    /// Decisions, or commands, a second.
    pub(crate) rate: f64,
    /// Decisions of one script call.
    pub(crate) batch: f64,
    /// Server's microseconds for one script call.
    pub(crate) micros: f64,
}

impl Measured {
    pub(crate) fn better(self, other: Self) -> Self {
        if other.rate > self.rate { other } else { self }
    }
}

/// Callers who call again and again (told who they are and how often they have called) until the time is up.
pub(crate) async fn rate<C, F>(server: &Server, span: Duration, callers: usize, call: C) -> Result<Measured>
where
    C: Fn(usize, usize) -> F + Clone + Send + 'static,
    F: Future<Output = Result<usize>> + Send,
{
    server.reset_statistics().await?;
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for caller in 0..callers {
        let call = call.clone();
        tasks.spawn(async move {
            let (mut decisions, mut nth) = (0, 0);
            while started.elapsed() < span {
                decisions += call(caller, nth).await?;
                nth += 1;
            }
            anyhow::Ok(decisions)
        });
    }
    finish(server, started, tasks).await
}

/// Callers who share so many calls, each told which one it makes, and who call until all are made.
pub(crate) async fn rate_of_all<C, F>(
    server: &Server,
    calls: usize,
    callers: usize,
    call: C,
) -> Result<Measured>
where
    C: Fn(usize) -> F + Clone + Send + 'static,
    F: Future<Output = Result<()>> + Send,
{
    server.reset_statistics().await?;
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for caller in 0..callers {
        let call = call.clone();
        tasks.spawn(async move {
            let mine = (caller..calls).step_by(callers);
            let made = mine.len();
            for nth in mine {
                call(nth).await?;
            }
            anyhow::Ok(made)
        });
    }
    finish(server, started, tasks).await
}

async fn finish(server: &Server, started: Instant, mut tasks: JoinSet<Result<usize>>) -> Result<Measured> {
    let mut decisions = 0;
    while let Some(done) = tasks.join_next().await {
        decisions += done??;
    }
    let elapsed = started.elapsed().as_secs_f64();
    let decisions = f64::from(u32::try_from(decisions)?);
    let calls = server.calls("evalsha").await?;
    Ok(Measured {
        rate: decisions / elapsed,
        batch: decisions / calls.count,
        micros: calls.micros / calls.count,
    })
}

/// The rounds of one figure.
#[derive(Default)]
pub(crate) struct Run {
    name: &'static str,
    rate: Series,
    batch: Series,
    micros: Series,
}

/// The figures, in the order of their first measurement.
#[derive(Default)]
pub(crate) struct Runs(Vec<Run>);

impl Runs {
    pub(crate) fn push(&mut self, name: &'static str, measured: Measured) {
        let at = self.0.iter().position(|run| run.name == name).unwrap_or_else(|| {
            self.0.push(Run { name, ..Run::default() });
            self.0.len() - 1
        });
        self.0[at].rate.push(measured.rate);
        self.0[at].batch.push(measured.batch);
        self.0[at].micros.push(measured.micros);
    }

    pub(crate) fn figure(&self, name: &'static str) -> Figure {
        let Some(run) = self.0.iter().find(|run| run.name == name) else {
            return Figure::new(name, "/s", Series::default());
        };
        let (batch, micros) = (run.batch.median(), run.micros.median());
        let figure = Figure::new(name, "/s", run.rate.clone());
        match batch.is_finite() {
            true => figure.note(format!("{batch:.1} a call of {micros:.1} us")),
            false => figure,
        }
    }
}
