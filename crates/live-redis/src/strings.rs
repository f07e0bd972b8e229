//! Short-lived strings: a cache whose loss a host does not notice but in speed.

use std::time::Duration;

use crate::contract::Contract;
use crate::error::LiveRedisError;
use crate::input::InputError;
use crate::{LiveRedis, input, script};

impl LiveRedis {
    /// The string at `key`, or `None` when there is none.
    ///
    /// Permissive: without Redis, when Redis cannot be read, or when the key holds something else than UTF-8 text, it
    /// is `None`; all but the first are counted in [`LiveRedis::degradations`]. `key` has 1 to 512 bytes and no
    /// control character.
    ///
    /// # Errors
    ///
    /// Only when `key` is out of bounds; nothing was sent then.
    pub async fn get_string(&self, key: &str) -> Result<Option<String>, InputError> {
        input::key("key", key)?;
        let call = self.read_text(self.keys_of(key).string(key));
        Ok(self.under(Contract::Permissive, "get_string", call).await.unwrap_or_default())
    }

    /// Stores a string for a time, whatever string was there.
    ///
    /// Permissive: a no-op without Redis; when Redis fails, or the key holds something else than a string, it is
    /// skipped and counted in [`LiveRedis::degradations`]. `key` has 1 to 512 bytes and no control character, `value`
    /// at most 1 MiB; `ttl` is 1 ms to 400 days, whole milliseconds.
    ///
    /// # Errors
    ///
    /// Only when an argument is out of bounds; nothing was sent then.
    pub async fn set_string(&self, key: &str, value: &str, ttl: Duration) -> Result<(), InputError> {
        input::key("key", key)?;
        input::value("value", value)?;
        let ttl = input::ttl("ttl", ttl)?;
        let call = self.write_text(self.keys_of(key).string(key), value, ttl);
        self.under(Contract::Permissive, "set_string", call).await.unwrap_or_default();
        Ok(())
    }

    pub(crate) async fn read_text(&self, key: String) -> Result<Option<String>, LiveRedisError> {
        let mut get = redis::cmd("GET");
        get.arg(&key);
        let bytes: Option<Vec<u8>> = self.hot_command(&get).await?;
        let text = bytes.map(String::from_utf8).transpose();
        text.map_err(|_| LiveRedisError::Damaged(format!("{key} is not UTF-8")))
    }

    /// `ttl` in milliseconds.
    pub(crate) async fn write_text(&self, key: String, value: &str, ttl: u64) -> Result<(), LiveRedisError> {
        let mut call = script::WRITE_STRING.key(key);
        call.arg(value).arg(ttl);
        self.hot_script::<u64>(&call).await?;
        Ok(())
    }
}
