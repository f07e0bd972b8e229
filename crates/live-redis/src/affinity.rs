//! Affinities: which deployment a conversation sticks to. Strict: a host must know when it does not know.
//!
//! In all calls `key` has 1 to 512 bytes and no control character, a value at most 1 MiB, and `ttl` is 1 ms to 400 days
//! in whole milliseconds.

use std::time::Duration;

use crate::contract::Contract;
use crate::error::LiveRedisError;
use crate::{LiveRedis, input, script};

impl LiveRedis {
    /// The affinity at `key` (1 to 512 bytes, no control character), or `None` when there is none.
    ///
    /// # Errors
    ///
    /// [`LiveRedisError::Input`] before anything is sent, [`LiveRedisError::NotConfigured`] without Redis,
    /// [`LiveRedisError::Damaged`] when the value is not UTF-8, or when Redis fails.
    pub async fn read_affinity(&self, key: &str) -> Result<Option<String>, LiveRedisError> {
        input::key("affinity key", key)?;
        let call = self.read_text(self.keys_of(key).affinity(key));
        self.under(Contract::Strict, "read_affinity", call).await
    }

    /// Stores an affinity of at most 1 MiB for `ttl` (1 ms to 400 days), whatever was there. Safe to repeat.
    ///
    /// # Errors
    ///
    /// [`LiveRedisError::Input`] before anything is sent, [`LiveRedisError::NotConfigured`] without Redis, or when it
    /// may not have been stored.
    pub async fn write_affinity(&self, key: &str, value: &str, ttl: Duration) -> Result<(), LiveRedisError> {
        input::key("affinity key", key)?;
        input::value("affinity", value)?;
        let ttl = input::ttl("ttl", ttl)?;
        let call = self.write_text(self.keys_of(key).affinity(key), value, ttl);
        self.under(Contract::Strict, "write_affinity", call).await
    }

    /// Lets the affinity live for `ttl` from now, if it is `expected`: compared and renewed in one step. `false` when
    /// there is another or none; nothing changes then, its expiry neither. Safe to repeat.
    ///
    /// # Errors
    ///
    /// As [`LiveRedis::write_affinity`].
    pub async fn compare_affinity(
        &self,
        key: &str,
        expected: &str,
        ttl: Duration,
    ) -> Result<bool, LiveRedisError> {
        input::key("affinity key", key)?;
        input::value("expected affinity", expected)?;
        let ttl = input::ttl("ttl", ttl)?;
        let mut call = script::RENEW_STRING.key(self.keys_of(key).affinity(key));
        call.arg(expected).arg(ttl);
        self.under(Contract::Strict, "compare_affinity", self.hot_script(&call)).await
    }

    /// Removes the affinity if it is `expected`: compared and removed in one step. `false` when there is another or none;
    /// nothing changes then. Who took a key with [`LiveRedis::swap_affinity`] gives up what is still its own, and nobody
    /// else's. Safe to repeat.
    ///
    /// # Errors
    ///
    /// As [`LiveRedis::write_affinity`].
    pub async fn drop_affinity(&self, key: &str, expected: &str) -> Result<bool, LiveRedisError> {
        input::key("affinity key", key)?;
        input::value("expected affinity", expected)?;
        let mut call = script::RENEW_STRING.key(self.keys_of(key).affinity(key));
        // To live for no time at all is to be gone: Redis deletes the key at once.
        call.arg(expected).arg(0);
        self.under(Contract::Strict, "drop_affinity", self.hot_script(&call)).await
    }

    /// Stores `value` for `ttl`, if the affinity is `expected` (`None`: if there is none) or `value` itself, in one step: of
    /// several who expect the same and store a value of their own each, one gets `true`. `false` when there is another; nothing
    /// changes then.
    ///
    /// After an error the swap may have happened. Safe to repeat for who stores a value that nobody else does: `true` then says
    /// that it holds the key, by whichever of the calls.
    ///
    /// # Errors
    ///
    /// As [`LiveRedis::write_affinity`].
    pub async fn swap_affinity(
        &self,
        key: &str,
        expected: Option<&str>,
        value: &str,
        ttl: Duration,
    ) -> Result<bool, LiveRedisError> {
        input::key("affinity key", key)?;
        input::value("expected affinity", expected.unwrap_or_default())?;
        input::value("affinity", value)?;
        let ttl = input::ttl("ttl", ttl)?;
        let mut call = script::SWAP_STRING.key(self.keys_of(key).affinity(key));
        call.arg(value).arg(ttl).arg(expected);
        self.under(Contract::Strict, "swap_affinity", self.hot_script(&call)).await
    }
}
