//! What gateways tell each other about deployments: failures and cooldowns, latencies, tokens of the minute.
//!
//! Reads are permissive: routing goes on without them. A deployment of which nothing usable is known is left out of
//! the answer; one whose key holds nonsense is left out too, and the call counted in [`LiveRedis::degradations`].

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use chrono::{DateTime, Utc};
use rate_plan::MAX_LIMIT;

use crate::contract::Contract;
use crate::counters::minute;
use crate::error::LiveRedisError;
use crate::input::InputError;
use crate::keys::ShardKeys;
use crate::spread::Found;
use crate::{LiveRedis, input, script};

/// How long failures are counted together, from the first of them on: one minute, the window in which gateways count
/// a deployment's allowed failures. The specification names none.
pub const FAILURE_WINDOW: Duration = Duration::from_secs(60);

/// How many samples of a deployment's latency are kept.
pub const LATENCY_SAMPLES: u16 = 20;

/// How long samples are kept after the last one.
const LATENCY_TTL: Duration = Duration::from_secs(60 * 60);

const DEPLOYMENT: &str = "deployment id";

impl LiveRedis {
    /// Counts a failure of a deployment; the `allowed`-th within [`FAILURE_WINDOW`], and every later one, cools it for
    /// `cooldown` from now. Answers whether it is cooled now.
    ///
    /// A longer cooldown replaces a shorter one, never the reverse. The count is not reset by the cooldown: when the
    /// cooldown ends within the window, one more failure cools the deployment again. `allowed < 1` switches cooldowns
    /// off: a no-op. `id` has 1 to 128 bytes and no control character, `allowed` is at most 2^53-1, `cooldown` 1 ms to
    /// 400 days in whole milliseconds. Without Redis it is `false`. A call that ran out of time may have counted.
    ///
    /// # Errors
    ///
    /// [`LiveRedisError::Input`] before anything is sent, [`LiveRedisError::Damaged`] when a key holds something else,
    /// or when a configured Redis fails.
    pub async fn record_failure(
        &self,
        id: &str,
        allowed: i64,
        cooldown: Duration,
    ) -> Result<bool, LiveRedisError> {
        input::id(DEPLOYMENT, id)?;
        if allowed < 1 {
            return Ok(false);
        }
        let allowed = input::count("allowed failures", allowed)?;
        let cooldown = input::ttl("cooldown", cooldown)?;
        let keys = self.keys_of(id);
        let mut call = script::RECORD_FAILURE.key(keys.fails(id));
        call.key(keys.cooldown(id)).arg(allowed).arg(cooldown).arg(FAILURE_WINDOW.as_secs() * 1000);
        self.under(Contract::Optional, "record_failure", self.hot_script(&call)).await
    }

    /// Which of these deployments are cooled, by one round trip. Permissive: empty without Redis, empty and counted in
    /// [`LiveRedis::degradations`] when Redis fails.
    ///
    /// # Errors
    ///
    /// Only when an id is out of bounds (1 to 128 bytes, no control character); nothing was sent then.
    pub async fn cooled(&self, ids: &[&str]) -> Result<HashSet<String>, InputError> {
        let read = |keys: &ShardKeys<'_>, id: &str| get(keys.cooldown(id));
        let cooled = |mark: Option<Vec<u8>>| match mark.as_deref() {
            None => Ok(None),
            Some(b"1") => Ok(Some(())),
            Some(_) => Err(Nonsense),
        };
        Ok(self.read_known("cooled", ids, read, cooled).await?.into_keys().collect())
    }

    /// Adds a sample, in seconds, to the last [`LATENCY_SAMPLES`] of a deployment, which are kept for one hour.
    ///
    /// `id` has 1 to 128 bytes and no control character; `seconds` is finite and not negative. A no-op without Redis.
    ///
    /// # Errors
    ///
    /// [`LiveRedisError::Input`] before anything is sent, or when a configured Redis fails.
    pub async fn add_latency(&self, id: &str, seconds: f64) -> Result<(), LiveRedisError> {
        input::id(DEPLOYMENT, id)?;
        let seconds = input::sample("latency", seconds)?;
        let mut call = script::ADD_LATENCY.key(self.keys_of(id).latency(id));
        call.arg(seconds.to_string()).arg(LATENCY_SAMPLES).arg(LATENCY_TTL.as_secs() * 1000);
        let kept: u64 = self.under(Contract::Optional, "add_latency", self.hot_script(&call)).await?;
        tracing::trace!(kept, "latency added");
        Ok(())
    }

    /// The mean latency, in seconds, of each deployment that has a valid sample, by one round trip. Permissive: samples
    /// that are no finite number, or negative, are skipped; empty without Redis, empty and counted in
    /// [`LiveRedis::degradations`] when Redis fails.
    ///
    /// # Errors
    ///
    /// As [`LiveRedis::cooled`].
    pub async fn latencies(&self, ids: &[&str]) -> Result<HashMap<String, f64>, InputError> {
        let read = |keys: &ShardKeys<'_>, id: &str| {
            let mut command = redis::cmd("LRANGE");
            command.arg(keys.latency(id)).arg(0).arg(LATENCY_SAMPLES - 1);
            command
        };
        self.read_known("latencies", ids, read, |samples: Vec<Vec<u8>>| Ok(mean(&samples))).await
    }

    /// Adds tokens (0 to 2^53-1) to what a deployment used in the UTC minute of `now`. The total expires two minutes
    /// after it was last added to.
    ///
    /// `id` has 1 to 128 bytes and no control character. A no-op without Redis. A call that ran out of time may have
    /// counted.
    ///
    /// # Errors
    ///
    /// [`LiveRedisError::Input`] before anything is sent, [`LiveRedisError::CounterFull`] instead of a total above
    /// 2^53-1, [`LiveRedisError::Damaged`] when the total is no such integer, or when a configured Redis fails.
    pub async fn add_usage(&self, id: &str, tokens: i64, now: DateTime<Utc>) -> Result<(), LiveRedisError> {
        input::id(DEPLOYMENT, id)?;
        let tokens = input::count("tokens", tokens)?;
        let call = self.hit(self.keys_of(id).usage(minute(now), id), tokens);
        self.under(Contract::Optional, "add_usage", call).await?;
        Ok(())
    }

    /// The tokens that each deployment used in the UTC minute of `now`, by one round trip; one that used none in it is
    /// left out. Permissive: empty without Redis, empty and counted in [`LiveRedis::degradations`] when Redis fails.
    ///
    /// # Errors
    ///
    /// As [`LiveRedis::cooled`].
    pub async fn usages(&self, ids: &[&str], now: DateTime<Utc>) -> Result<HashMap<String, u64>, InputError> {
        let minute = minute(now);
        let read = |keys: &ShardKeys<'_>, id: &str| get(keys.usage(minute, id));
        self.read_known("usages", ids, read, |total: Option<Vec<u8>>| {
            total.map(|text| tokens(&text)).transpose()
        })
        .await
    }

    /// Reads a key of each deployment and keeps what `understand` makes of it; `None` is nothing known.
    async fn read_known<A: redis::FromRedisValue, T>(
        &self,
        name: &'static str,
        ids: &[&str],
        read: impl Fn(&ShardKeys<'_>, &str) -> redis::Cmd,
        understand: impl Fn(A) -> Result<Option<T>, Nonsense>,
    ) -> Result<HashMap<String, T>, InputError> {
        ids.iter().try_for_each(|id| input::id(DEPLOYMENT, id))?;
        let call = self.read_each::<A>(ids, read);
        let found = self.under(Contract::Permissive, name, call).await.unwrap_or_default();
        let mut known = HashMap::with_capacity(found.len());
        let mut damaged = None;
        for (id, found) in ids.iter().zip(found) {
            let value = match found {
                Found::Answer(answer) => understand(answer),
                Found::WrongType => Err(Nonsense),
            };
            match value {
                Ok(Some(value)) => drop(known.insert((*id).to_owned(), value)),
                Ok(None) => {}
                Err(Nonsense) => damaged = Some(*id),
            }
        }
        if let Some(id) = damaged {
            self.degraded(name, &LiveRedisError::Damaged(format!("{name} of {id}")));
        }
        Ok(known)
    }
}

/// A key holds what no script of this crate writes.
struct Nonsense;

fn get(key: String) -> redis::Cmd {
    let mut command = redis::cmd("GET");
    command.arg(key);
    command
}

fn tokens(text: &[u8]) -> Result<u64, Nonsense> {
    let total = std::str::from_utf8(text).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    total.and_then(|text| text.parse().ok()).filter(|&total| total <= MAX_LIMIT).ok_or(Nonsense)
}

/// The mean of the valid samples, or `None` without one. Updated sample by sample, since the sum of huge ones would not
/// be finite.
fn mean(samples: &[Vec<u8>]) -> Option<f64> {
    let valid = samples.iter().filter_map(|sample| {
        let seconds: f64 = std::str::from_utf8(sample).ok()?.parse().ok()?;
        input::sample("latency", seconds).ok()
    });
    let mut mean = 0.0;
    let mut count = 0.0;
    for seconds in valid {
        count += 1.0;
        mean += (seconds - mean) / count;
    }
    (count > 0.0).then_some(mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(texts: &[&str]) -> Vec<Vec<u8>> {
        texts.iter().map(|text| text.as_bytes().to_vec()).collect()
    }

    #[test]
    fn the_mean_is_that_of_the_valid_samples() {
        assert_eq!(mean(&samples(&["1", "2", "0.5", "0.5"])), Some(1.0));
        assert_eq!(mean(&samples(&["x", "", "NaN", "-1", "inf", "2.5", "1 "])), Some(2.5));
        assert_eq!(mean(&[vec![0xff], b"3".to_vec()]), Some(3.0));
        assert_eq!(mean(&samples(&["nan"])), None);
        assert_eq!(mean(&[]), None);
    }

    #[test]
    fn the_mean_of_huge_samples_is_finite() {
        let huge = f64::MAX.to_string();
        assert!(mean(&samples(&[huge.as_str(); 20])).is_some_and(f64::is_finite));
    }

    #[test]
    fn only_integers_that_a_script_writes_are_totals() {
        assert!(matches!(tokens(b"0"), Ok(0)));
        assert!(matches!(tokens(b"9007199254740991"), Ok(MAX_LIMIT)));
        for bad in
            [&b""[..], b"-1", b"+1", b"1.0", b"x", b"9007199254740992", b"99999999999999999999", b"\xff"]
        {
            assert!(tokens(bad).is_err(), "{bad:?}");
        }
    }
}
