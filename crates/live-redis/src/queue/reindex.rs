//! Making the index of pending spend anew.

use spend_queue::{Reindexed, Shard};

use crate::error::{CallError, LiveRedisError};
use crate::{LiveRedis, script};

impl LiveRedis {
    pub(super) async fn rebuild_index(&self, shard: Shard) -> Result<Reindexed, LiveRedisError> {
        if shard.is_older() {
            return Ok(Reindexed::Proven);
        }
        let bound = self.shared.options.scan_bound;
        let mut call = script::REINDEX.prepare_invoke();
        self.key_index(&mut call, shard);
        call.arg(bound);
        match self.wide_script::<Vec<u64>>(&call).await?[..] {
            [0, entries] => {
                metrics::counter!("tollgate_redis_index_rebuilds_total").increment(1);
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
