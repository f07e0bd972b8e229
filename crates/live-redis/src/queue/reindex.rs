//! Making the index of pending spend anew.

use spend_queue::{Reindexed, Shard};

use crate::error::{CallError, LiveRedisError};
use crate::{LiveRedis, script};

impl LiveRedis {
    /// [`SpendQueue::reindex`](spend_queue::SpendQueue::reindex), although the index may be proven: single counters are not part
    /// of the proof, and one that holds nonsense makes acknowledgements and strict reads of its scope fail.
    ///
    /// # Errors
    ///
    /// When the shard cannot be read or written. Repeating the call is always safe.
    pub async fn repair_index(&self, shard: Shard) -> Result<Reindexed, LiveRedisError> {
        self.strictly("repair_index", self.rebuild_index(shard, true)).await
    }

    pub(super) async fn rebuild_index(
        &self,
        shard: Shard,
        although_proven: bool,
    ) -> Result<Reindexed, LiveRedisError> {
        if shard.is_older() {
            return Ok(Reindexed::Proven);
        }
        let bound = self.shared.options.scan_bound;
        let mut call = script::REINDEX.prepare_invoke();
        self.key_index(&mut call, shard);
        call.key(self.shared.options.prefix.shard(shard).lost());
        call.arg(bound).arg(u8::from(although_proven));
        match self.wide_script::<Vec<u64>>(&call).await?[..] {
            [0, entries] => {
                metrics::counter!("tallyweir_redis_index_rebuilds_total").increment(1);
                tracing::warn!(shard = shard.index(), entries, "index of pending spend made anew");
                Ok(Reindexed::Rebuilt { entries })
            }
            [1] => Ok(Reindexed::Proven),
            [2, position] => Ok(Reindexed::Blocked { position }),
            [3, depth] => Ok(Reindexed::TooLong { depth, bound: bound.into() }),
            ref other => Err(CallError::Answer(format!("reindex answered {other:?}")).into()),
        }
    }
}
