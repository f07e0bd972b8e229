//! What is known of deployments, without a question to Redis in any request.
//!
//! Hints are read for all deployments at once, at most every [`EVERY`], and only while there is traffic; samples are gathered and written
//! with the next read. They are hints: losing some changes the choice of a deployment and nothing else, so nothing here fails
//! a request. Failures are told at once, since other gateways are to be spared them.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use chrono::Utc;
use futures_util::future::join_all;
use live_redis::LiveRedis;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::config::Routing;

/// How often hints are read and samples written.
const EVERY: Duration = Duration::from_millis(250);
/// Older hints are read anew before a choice: there was no traffic meanwhile.
const STALE: Duration = Duration::from_secs(1);

/// What all gateways know of deployments.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hints {
    /// Not to be chosen for now.
    pub(crate) cooled: HashSet<String>,
    /// Mean seconds until an answer, or the first part of a stream.
    pub(crate) latencies: HashMap<String, f64>,
    /// Tokens used in this minute.
    pub(crate) usages: HashMap<String, u64>,
}

#[derive(Debug)]
pub(crate) struct Telemetry {
    redis: LiveRedis,
    ids: Vec<Arc<str>>,
    hints: RwLock<(Arc<Hints>, Option<Instant>)>,
    samples: Mutex<HashMap<Arc<str>, Sample>>,
    asked: AtomicBool,
    reading: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Sample {
    /// The latest; of many within a quarter of a second one is enough.
    latency: Option<Duration>,
    tokens: u64,
}

impl Telemetry {
    pub(crate) fn new(redis: LiveRedis, ids: impl Iterator<Item = Arc<str>>) -> Self {
        Self {
            redis,
            ids: ids.collect(),
            hints: RwLock::default(),
            samples: Mutex::default(),
            asked: AtomicBool::new(false),
            reading: tokio::sync::Mutex::default(),
        }
    }

    /// What is known, at most a second old.
    pub(crate) async fn hints(&self) -> Arc<Hints> {
        self.asked.store(true, Ordering::Relaxed);
        if let Some(hints) = self.known(STALE) {
            return hints;
        }
        let _turn = self.reading.lock().await;
        // Whoever had the turn before may have read them.
        match self.known(STALE) {
            Some(hints) => hints,
            None => self.read().await,
        }
    }

    /// A deployment answered.
    pub(crate) fn answered(&self, id: &Arc<str>, latency: Duration, tokens: u64) {
        let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let sample = samples.entry(Arc::clone(id)).or_default();
        sample.latency = Some(latency);
        sample.tokens = sample.tokens.saturating_add(tokens);
    }

    /// A deployment failed.
    pub(crate) async fn failed(&self, id: &str, routing: &Routing) {
        match self.redis.record_failure(id, routing.allowed_failures.into(), routing.cooldown()).await {
            Ok(true) => {
                tracing::warn!(deployment = id, cooldown = ?routing.cooldown(), "a deployment is cooled");
                let mut hints = self.hints.write().unwrap_or_else(PoisonError::into_inner);
                Arc::make_mut(&mut hints.0).cooled.insert(id.to_owned());
            }
            Ok(false) => {}
            Err(error) => tracing::debug!(deployment = id, %error, "a failure was not recorded"),
        }
    }

    /// Keeps hints current until told to stop; then writes what was gathered.
    pub(crate) async fn run(&self, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            self.write().await;
            if self.asked.swap(false, Ordering::Relaxed) {
                let _turn = self.reading.lock().await;
                self.read().await;
            }
        }
        self.write().await;
    }

    fn known(&self, age: Duration) -> Option<Arc<Hints>> {
        let hints = self.hints.read().unwrap_or_else(PoisonError::into_inner);
        hints.1.filter(|read| read.elapsed() < age).map(|_| Arc::clone(&hints.0))
    }

    async fn read(&self) -> Arc<Hints> {
        let ids: Vec<&str> = self.ids.iter().map(|id| &**id).collect();
        let (cooled, latencies, usages) = tokio::join!(
            self.redis.cooled(&ids),
            self.redis.latencies(&ids),
            self.redis.usages(&ids, Utc::now())
        );
        // Ids were checked with the configuration, so none is refused.
        let hints = Arc::new(Hints {
            cooled: cooled.unwrap_or_default(),
            latencies: latencies.unwrap_or_default(),
            usages: usages.unwrap_or_default(),
        });
        *self.hints.write().unwrap_or_else(PoisonError::into_inner) =
            (Arc::clone(&hints), Some(Instant::now()));
        hints
    }

    /// All at once, so that a Redis that is silent holds up who waits for one deadline, however many deployments there are.
    pub(crate) async fn write(&self) {
        let samples = std::mem::take(&mut *self.samples.lock().unwrap_or_else(PoisonError::into_inner));
        let added = samples.into_iter().map(|(id, Sample { latency, tokens })| async move {
            let tokens = i64::try_from(tokens).unwrap_or(i64::MAX);
            let latency = async {
                match latency {
                    Some(latency) => self.redis.add_latency(&id, latency.as_secs_f64()).await,
                    None => Ok(()),
                }
            };
            let usage = async {
                match tokens {
                    0 => Ok(()),
                    _ => self.redis.add_usage(&id, tokens, Utc::now()).await,
                }
            };
            let (latency, usage) = tokio::join!(latency, usage);
            if let Err(error) = latency.and(usage) {
                tracing::debug!(deployment = &*id, %error, "telemetry was not written");
            }
        });
        join_all(added).await;
    }
}
