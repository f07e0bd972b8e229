//! What each kind of call does when Redis is not configured, and when it fails (docs/decisions/0023): in one place.

use std::future::Future;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::LiveRedis;
use crate::error::LiveRedisError;

/// How much a host depends on a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contract {
    /// Telemetry: the documented fallback either way; a failure is counted as a degradation.
    Permissive,
    /// The fallback without Redis, an error when a configured Redis fails.
    Optional,
    /// An error either way: limits, money or affinity depend on it.
    Strict,
}

impl LiveRedis {
    /// Makes a call under its contract; `T::default()` is the fallback.
    pub(crate) async fn under<T: Default>(
        &self,
        contract: Contract,
        name: &'static str,
        call: impl Future<Output = Result<T, LiveRedisError>>,
    ) -> Result<T, LiveRedisError> {
        match (timed(name, call).await, contract) {
            (Err(LiveRedisError::NotConfigured), Contract::Permissive | Contract::Optional) => {
                Ok(T::default())
            }
            (Err(error), Contract::Permissive) => {
                self.degraded(name, &error);
                Ok(T::default())
            }
            (answer, _) => counted(name, answer),
        }
    }

    /// Counts a permissive call that answered its fallback, or less than it was asked.
    pub(crate) fn degraded(&self, name: &'static str, error: &LiveRedisError) {
        self.shared.degradations.fetch_add(1, Ordering::Relaxed);
        metrics::counter!("tallyweir_redis_degradations_total", "call" => name).increment(1);
        tracing::warn!(call = name, %error, "answered without Redis");
    }

    /// Makes a call that has no fallback.
    pub(crate) async fn strictly<T>(
        &self,
        name: &'static str,
        call: impl Future<Output = Result<T, LiveRedisError>>,
    ) -> Result<T, LiveRedisError> {
        counted(name, timed(name, call).await)
    }
}

async fn timed<T>(name: &'static str, call: impl Future<Output = T>) -> T {
    let started = Instant::now();
    let _waiting = Waiting::begin();
    let answer = call.await;
    metrics::histogram!("tallyweir_redis_call_seconds", "call" => name).record(started.elapsed());
    answer
}

/// A call that its caller waits for, until it is answered or dropped.
struct Waiting;

impl Waiting {
    fn begin() -> Self {
        metrics::gauge!("tallyweir_redis_waiting_calls").increment(1);
        Self
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        metrics::gauge!("tallyweir_redis_waiting_calls").decrement(1);
    }
}

fn counted<T>(name: &'static str, answer: Result<T, LiveRedisError>) -> Result<T, LiveRedisError> {
    if let Err(error) = &answer {
        metrics::counter!("tallyweir_redis_errors_total", "call" => name, "kind" => error.kind())
            .increment(1);
    }
    answer
}
