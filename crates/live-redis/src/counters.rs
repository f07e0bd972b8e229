//! Counters of one subject in one UTC minute. They count; admission decides (`LiveRedis::admit_rate_plan`).

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::contract::Contract;
use crate::error::LiveRedisError;
use crate::{LiveRedis, input, script};

/// How long a minute's counter lives after it was last added to.
const COUNTER_TTL: Duration = Duration::from_secs(120);

impl LiveRedis {
    /// Counts one request of `id` in the minute of `now` and gives the minute's new total, 1 to 2^53-1.
    ///
    /// The counter expires two minutes after the last hit. `id` has 1 to 128 bytes and no control character. It is 0
    /// without Redis. A call that ran out of time may have counted: repeating it can count one request twice.
    ///
    /// # Errors
    ///
    /// [`LiveRedisError::Input`] before anything is sent, [`LiveRedisError::CounterFull`] instead of a total above
    /// 2^53-1, [`LiveRedisError::Damaged`] when the counter is no such integer, or when a configured Redis fails.
    pub async fn hit_rpm(&self, id: &str, now: DateTime<Utc>) -> Result<u64, LiveRedisError> {
        input::id("id", id)?;
        let key = self.keys_of(id).rpm(minute(now), id);
        self.under(Contract::Optional, "hit_rpm", self.hit(key, 1)).await
    }

    /// Adds `tokens` (0 to 2^53-1) of `id` in the minute of `now` and gives the minute's new total in tokens.
    ///
    /// Otherwise as [`LiveRedis::hit_rpm`].
    ///
    /// # Errors
    ///
    /// As [`LiveRedis::hit_rpm`]; a negative number of tokens is [`LiveRedisError::Input`].
    pub async fn hit_tpm(&self, id: &str, tokens: i64, now: DateTime<Utc>) -> Result<u64, LiveRedisError> {
        input::id("id", id)?;
        let tokens = input::count("tokens", tokens)?;
        let key = self.keys_of(id).tpm(minute(now), id);
        self.under(Contract::Optional, "hit_tpm", self.hit(key, tokens)).await
    }

    /// Adds to a minute's counter and its life, in one step.
    pub(crate) async fn hit(&self, key: String, amount: u64) -> Result<u64, LiveRedisError> {
        let mut call = script::HIT.key(key);
        call.arg(amount).arg(COUNTER_TTL.as_secs() * 1000);
        self.hot_script(&call).await
    }
}

/// The UTC minute of an instant, counted from 1970.
pub(crate) fn minute(now: DateTime<Utc>) -> i64 {
    now.timestamp().div_euclid(60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_begins_at_its_second_zero_before_1970_too() {
        for (time, expected) in [
            ("1970-01-01T00:00:59.999Z", 0),
            ("1970-01-01T00:01:00Z", 1),
            ("1969-12-31T23:59:59.999Z", -1),
            ("1969-12-31T23:58:59Z", -2),
        ] {
            assert_eq!(minute(time.parse().unwrap()), expected, "{time}");
        }
    }
}
