-- The batches of a shard that end with a number: one, or one a history.
-- $1 key prefix and $2 shard count of the epoch; $3 shard; $4 number.
select chain, committed_at
from flush_log
where prefix = $1 and shards = $2 and shard = $3 and last_seq = $4
