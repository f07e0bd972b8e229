//! Ids that are spread over the shards: where one lives, and how many are read at once.

use std::collections::BTreeMap;

use futures_util::future::try_join_all;
use redis::{Cmd, FromRedisValue, Pipeline, RedisResult};

use crate::LiveRedis;
use crate::connect::Question;
use crate::error::LiveRedisError;
use crate::keys::ShardKeys;

/// The code of Redis's error for a key of another type, which concerns that key alone.
const WRONG_TYPE: &str = "WRONGTYPE";

/// What was found for one id.
pub(crate) enum Found<T> {
    Answer(T),
    /// The key is of another type.
    WrongType,
}

impl LiveRedis {
    /// The keys of the shard where an id lives: `xxh3_64(id) mod shards`, as for partitions.
    pub(crate) fn keys_of(&self, id: &str) -> ShardKeys<'_> {
        self.shared.options.prefix.shard(self.shard_count().shard_of(id))
    }

    /// One read for each id, in the order of `ids`. The reads of a shard are one pipeline, so that a Redis Cluster can
    /// serve it, and all pipelines are sent before the first answer: one round trip, however many ids.
    pub(crate) async fn read_each<T: FromRedisValue>(
        &self,
        ids: &[&str],
        read: impl Fn(&ShardKeys<'_>, &str) -> Cmd,
    ) -> Result<Vec<Found<T>>, LiveRedisError> {
        let mut shards = BTreeMap::new();
        for (place, id) in ids.iter().enumerate() {
            let shard = self.shard_count().shard_of(id);
            let (places, pipeline) = shards.entry(shard).or_insert_with(|| {
                let mut pipeline = Pipeline::new();
                pipeline.ignore_errors();
                (Vec::new(), pipeline)
            });
            places.push(place);
            pipeline.add_command(read(&self.shared.options.prefix.shard(shard), id));
        }
        let calls = shards.into_values().map(|(places, pipeline)| async move {
            let answers: Vec<RedisResult<T>> = self.hot(&Question::Pipeline(&pipeline)).await?;
            let found = places.into_iter().zip(answers).map(|(place, answer)| match answer {
                Ok(answer) => Ok((place, Found::Answer(answer))),
                Err(error) if error.code() == Some(WRONG_TYPE) => Ok((place, Found::WrongType)),
                Err(error) => Err(LiveRedisError::from(error)),
            });
            found.collect::<Result<Vec<_>, _>>()
        });
        let mut found: Vec<_> = try_join_all(calls).await?.into_iter().flatten().collect();
        found.sort_unstable_by_key(|(place, _)| *place);
        Ok(found.into_iter().map(|(_, found)| found).collect())
    }
}
