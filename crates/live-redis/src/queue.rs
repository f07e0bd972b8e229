//! The spend queue in Redis.

use std::future::Future;

use chrono::{DateTime, Utc};
use redis::{FromRedisValue, Value};
use spend_queue::{
    Acked, BatchLimit, EncodedEvent, Enqueued, MAX_PEEK_BYTES, Peeked, Receipt, Shard, ShardCount,
    SpendEvent, SpendQueue,
};

use crate::error::{CallError, LiveRedisError};
use crate::{LiveRedis, script};

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
        let keys = self.shared.options.prefix.shard(shard);
        let mut call = script::PEEK.key(keys.queue());
        call.arg(limit.get()).arg(MAX_PEEK_BYTES);
        let mut answer = self.wide_script::<Vec<Value>>(&call).await?.into_iter();
        let depth = answer.next().map_or(Ok(0), u64::from_redis_value).map_err(|error| unexpected(&error))?;
        let raw = answer
            .map(Vec::<u8>::from_redis_value)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| unexpected(&error))?;
        Ok(Peeked::read(shard, raw, depth))
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
        let keys = self.shared.options.prefix.shard(receipt.shard);
        let mut call = script::ACK.key(keys.queue());
        call.key(keys.state()).key(keys.hot()).key(keys.count());
        call.arg(receipt.entries).arg(&receipt.head[..]).arg(&receipt.last[..]);
        call.arg(receipt.last_seq.saturating_add(1));
        for (scope, charge) in &receipt.charges {
            call.arg(scope.to_string()).arg(charge.amount.picos().to_string()).arg(charge.paid_events);
        }
        match self.hot_script::<Vec<u64>>(&call).await?[..] {
            [0] => Ok(Acked::Changed),
            [1, depth, short_counters] => Ok(Acked::Done { depth, short_counters }),
            ref other => Err(CallError::Answer(format!("acknowledgement answered {other:?}")).into()),
        }
    }

    async fn enqueue_encoded(&self, event: &EncodedEvent) -> Result<Enqueued, LiveRedisError> {
        let shards = self.shard_count();
        let keys = self.shared.options.prefix.shard(shards.shard_of(event.partition()));
        let digest = event.digest();
        let (seen, field) = keys.seen(&digest);
        let mut call = script::ENQUEUE.key(keys.queue());
        call.key(keys.state()).key(seen).key(keys.hot()).key(keys.count());
        call.arg(field).arg(&event.payload_check().short()[..]).arg(event.body()).arg(shards.get());
        call.arg(event.charges().next().map_or(0, |(_, picos)| picos));
        for (scope, _) in event.charges() {
            call.arg(scope.to_string());
        }
        match self.hot_script::<Vec<u64>>(&call).await?[..] {
            [0, seq, depth] => Ok(Enqueued::Accepted { seq, depth }),
            [1] => Ok(Enqueued::Duplicate),
            [2] => Ok(Enqueued::Conflict),
            ref other => Err(CallError::Answer(format!("enqueue answered {other:?}")).into()),
        }
    }

    async fn queue_depth(&self, shard: Shard) -> Result<u64, LiveRedisError> {
        let mut length = redis::cmd("LLEN");
        length.arg(self.shared.options.prefix.shard(shard).queue());
        self.hot(async |mut conn| length.query_async(&mut conn).await).await
    }
}

impl SpendQueue for LiveRedis {
    type Error = LiveRedisError;

    fn shards(&self) -> ShardCount {
        self.shard_count()
    }

    fn enqueue(&self, event: &EncodedEvent) -> impl Future<Output = Result<Enqueued, Self::Error>> + Send {
        self.strictly("enqueue", self.enqueue_encoded(event))
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

    fn depth(&self, shard: Shard) -> impl Future<Output = Result<u64, Self::Error>> + Send {
        self.strictly("depth", self.queue_depth(shard))
    }
}

fn unexpected(error: &redis::ParsingError) -> LiveRedisError {
    CallError::Answer(error.to_string()).into()
}
