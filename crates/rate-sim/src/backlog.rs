//! Back-pressure: producers wait while the queue is too long.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use live_redis::LiveRedis;
use spend_queue::{QueueError, SpendQueue};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::replay::ReplayError;

const FIRST_POLL: Duration = Duration::from_millis(20);
const LONGEST_POLL: Duration = Duration::from_millis(500);

/// A gate that closes when an enqueue finds more than so many entries, and opens when a look at the queue finds fewer.
#[derive(Debug)]
pub(crate) struct Backlog {
    most: u64,
    patience: Duration,
    closed: AtomicBool,
    /// Held by the one producer that looks; the others wait for it.
    looking: Mutex<()>,
}

impl Backlog {
    pub(crate) fn new(most: u64, patience: Duration) -> Self {
        Self { most, patience, closed: AtomicBool::new(false), looking: Mutex::new(()) }
    }

    /// Notes the depth that an enqueue was answered.
    pub(crate) fn note(&self, depth: u64) {
        if depth > self.most {
            self.closed.store(true, Ordering::Relaxed);
        }
    }

    /// Returns when the queue is short enough.
    pub(crate) async fn pass(&self, redis: &LiveRedis) -> Result<(), ReplayError> {
        if !self.closed.load(Ordering::Relaxed) {
            return Ok(());
        }
        let _looking = self.looking.lock().await;
        let (start, mut pause) = (Instant::now(), FIRST_POLL);
        while self.closed.load(Ordering::Relaxed) {
            match longest_shard(redis).await {
                Ok(depth) if depth <= self.most => {
                    self.closed.store(false, Ordering::Relaxed);
                    return Ok(());
                }
                Ok(depth) if start.elapsed() > self.patience => {
                    return Err(ReplayError::Stuck { depth, most: self.most, waited: self.patience });
                }
                Err(error) if !error.is_transient() || start.elapsed() > self.patience => {
                    return Err(error.into());
                }
                Ok(_) | Err(_) => {}
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_POLL);
        }
        Ok(())
    }
}

async fn longest_shard(redis: &LiveRedis) -> Result<u64, live_redis::LiveRedisError> {
    let mut longest = 0;
    for shard in redis.shards().iter() {
        longest = longest.max(redis.depth(shard).await?);
    }
    Ok(longest)
}
