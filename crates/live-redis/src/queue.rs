//! The spend queue in Redis.

mod backlog;
mod enqueue;
mod losses;
mod marks;
mod pending;
mod quarantine;
mod reindex;
mod status;

use std::future::Future;

use chrono::{DateTime, Utc};
use redis::{FromRedisValue, ScriptInvocation, Value};
use spend_queue::{
    Acked, BatchLimit, EncodedEvent, Enqueued, Epoch, Index, MAX_PEEK_BYTES, Peeked, Receipt, Reindexed,
    Shard, ShardCount, SpendEvent, SpendQueue,
};

pub(crate) use backlog::Backlogs;
pub use backlog::{Backlog, Pressure, Watermarks};
pub(crate) use enqueue::EnqueueLanes;
pub use losses::Loss;
pub use marks::{Mark, Marks};
pub use quarantine::{OperatorNote, Quarantined};
pub use status::{QueueGlance, QueueStatus};

use crate::error::{CallError, LiveRedisError};
use crate::{LiveRedis, OlderQueue, input, script};

impl LiveRedis {
    /// Checks a finished call and queues it: the entry, the memory of its request id and its scopes' pending
    /// amounts move in one step. `now` is the host's clock, against which the event's times are checked.
    ///
    /// # Errors
    ///
    /// When the event is refused, or may not have been queued; repeating the call is always safe.
    pub async fn enqueue_spend(
        &self,
        event: &SpendEvent,
        now: DateTime<Utc>,
    ) -> Result<Enqueued, LiveRedisError> {
        self.enqueue(&event.encode(now)?).await
    }

    /// [`SpendQueue::peek`].
    ///
    /// # Errors
    ///
    /// When the shard cannot be read.
    pub async fn peek_logs(&self, shard: Shard, limit: BatchLimit) -> Result<Peeked, LiveRedisError> {
        self.strictly("peek", self.read_head(shard, limit)).await
    }

    async fn read_head(&self, shard: Shard, limit: BatchLimit) -> Result<Peeked, LiveRedisError> {
        let mut call = script::PEEK.prepare_invoke();
        if shard.is_older() {
            call.key(self.older()?.list());
        } else {
            self.key_index(&mut call, shard);
        }
        call.arg(limit.get()).arg(MAX_PEEK_BYTES);
        let mut answer = self.wide_script::<Vec<Value>>(&call).await?.into_iter();
        let mut number =
            || answer.next().map_or(Ok(0), u64::from_redis_value).map_err(|error| unexpected(&error));
        let (depth, proven) = (number()?, number()?);
        let raw = answer
            .map(Vec::<u8>::from_redis_value)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| unexpected(&error))?;
        let index = if proven == 1 { Index::Proven } else { Index::Doubtful };
        Ok(Peeked::read(shard, raw, depth, index))
    }

    /// [`SpendQueue::ack`]: verifies the whole prefix, subtracts and trims in one step, or does nothing.
    ///
    /// # Errors
    ///
    /// When the batch may not have been taken; repeating the call is safe.
    pub async fn ack_flushed(&self, receipt: &Receipt) -> Result<Acked, LiveRedisError> {
        self.strictly("ack", self.take_prefix(receipt)).await
    }

    async fn take_prefix(&self, receipt: &Receipt) -> Result<Acked, LiveRedisError> {
        input::batch("receipt.entries", receipt.entries)?;
        let (entries, digest) = (receipt.entries, receipt.digest.to_string());
        let mut call;
        if receipt.shard.is_older() {
            let older = self.older()?;
            call = script::ACK_OLDER.prepare_invoke();
            call.key(older.list()).arg(entries).arg(digest);
            for (scope, charge) in &receipt.charges {
                call.key(older.counter(scope)).arg(charge.amount.to_string());
            }
        } else {
            call = script::ACK.prepare_invoke();
            self.key_index(&mut call, receipt.shard);
            call.key(self.shared.options.prefix.shard(receipt.shard).lost());
            call.arg(entries).arg(digest).arg(receipt.charges.len());
            for (scope, charge) in &receipt.charges {
                call.arg(scope.to_string()).arg(charge.amount.picos().to_string()).arg(charge.paid_events);
            }
            for (start, amount) in &receipt.starts {
                call.arg(start.to_string()).arg(amount.picos().to_string());
            }
        }
        match self.hot_script::<Vec<u64>>(&call).await?[..] {
            [0] => Ok(Acked::Changed),
            [1, depth, short_counters] => Ok(Acked::Done { depth, short_counters }),
            ref other => Err(CallError::Answer(format!("acknowledgement answered {other:?}")).into()),
        }
    }

    /// The list of a shard.
    fn list_of(&self, shard: Shard) -> Result<String, LiveRedisError> {
        Ok(if shard.is_older() {
            self.older()?.list()
        } else {
            self.shared.options.prefix.shard(shard).queue()
        })
    }

    /// Names a shard's queue and index to a script.
    fn key_index(&self, call: &mut ScriptInvocation<'_>, shard: Shard) {
        for key in self.shared.options.prefix.shard(shard).indexed_queue() {
            call.key(key);
        }
    }

    /// The queue of the older deployment.
    fn older(&self) -> Result<&OlderQueue, LiveRedisError> {
        self.shared.options.older_queue.as_ref().ok_or(LiveRedisError::NotConfigured)
    }
}

impl SpendQueue for LiveRedis {
    type Error = LiveRedisError;

    fn shards(&self) -> ShardCount {
        self.shard_count()
    }

    fn epoch(&self) -> Epoch {
        Epoch::new(self.shared.options.prefix.to_string(), self.shard_count())
    }

    fn sources(&self) -> Vec<Shard> {
        let older = self.shared.options.older_queue.as_ref().map(|_| Shard::OLDER);
        self.shard_count().iter().chain(older).collect()
    }

    fn enqueue(&self, event: &EncodedEvent) -> impl Future<Output = Result<Enqueued, Self::Error>> + Send {
        self.strictly("enqueue", self.enqueue_in_lane(event))
    }

    fn peek(
        &self,
        shard: Shard,
        limit: BatchLimit,
    ) -> impl Future<Output = Result<Peeked, Self::Error>> + Send {
        self.peek_logs(shard, limit)
    }

    fn ack(&self, receipt: &Receipt) -> impl Future<Output = Result<Acked, Self::Error>> + Send {
        self.ack_flushed(receipt)
    }

    fn reindex(&self, shard: Shard) -> impl Future<Output = Result<Reindexed, Self::Error>> + Send {
        self.strictly("reindex", self.rebuild_index(shard, false))
    }

    fn depth(&self, shard: Shard) -> impl Future<Output = Result<u64, Self::Error>> + Send {
        self.strictly("depth", async move { Ok(self.read_backlog(shard).await?.entries) })
    }
}

fn unexpected(error: &redis::ParsingError) -> LiveRedisError {
    CallError::Answer(error.to_string()).into()
}
