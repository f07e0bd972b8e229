//! A key that holds what no script writes: an error with not one byte changed, or an answer that is exact all the same. Each
//! key of each script.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

#[path = "../common/mod.rs"]
mod common;
mod damages;
mod entries;
mod events;
mod older;
mod queue;
mod rates;

use common::Hot;
use live_redis::LiveRedisError;
use spend_queue::{Entry, QueueError};

/// Commands that put something of another type at a key. Some of them are always of another type.
const TYPES: [&[&[u8]]; 5] =
    [&[b"SET", b"x"], &[b"SADD", b"x"], &[b"ZADD", b"1", b"x"], &[b"HSET", b"x", b"1"], &[b"RPUSH", b"x"]];

/// Puts something at a key in place of what is there.
async fn replace(hot: &Hot, key: &str, command: &[&[u8]]) {
    let _: i64 = hot.run(&[b"DEL", key.as_bytes()]).await;
    let mut words = vec![command[0], key.as_bytes()];
    words.extend(&command[1..]);
    let _: redis::Value = hot.run(&words).await;
}

async fn set_field(hot: &Hot, key: &str, field: &[u8], value: &[u8]) {
    let _: i64 = hot.run(&[b"HSET", key.as_bytes(), field, value]).await;
}

/// Awaits a call that must fail for good and change nothing.
async fn refused<T: std::fmt::Debug>(
    hot: &Hot,
    what: &str,
    call: impl Future<Output = Result<T, LiveRedisError>>,
) -> LiveRedisError {
    let before = hot.digest().await;
    let error = match call.await {
        Err(error) => error,
        Ok(done) => panic!("{what}: {done:?}"),
    };
    assert_eq!(hot.digest().await, before, "{what}: {error}");
    assert!(!error.is_transient(), "{what}: {error}");
    assert!(!error.to_string().contains('\n'), "{what}: {error}");
    error
}

/// What is in the queue by the flusher's own reading; `None` when it cannot read something.
async fn entries(hot: &Hot) -> Option<Vec<Entry>> {
    hot.list().await.into_iter().map(|raw| Entry::decode(raw).ok()).collect()
}
