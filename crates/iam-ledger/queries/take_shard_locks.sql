-- Takes the advisory locks of shards that nobody holds, for this session; of those it answers which. A lock goes with its
-- session, so a flusher that dies frees its shards at once.
select shard as "shard!"
from unnest($2::integer[]) as shard
where pg_try_advisory_lock($1, shard)
