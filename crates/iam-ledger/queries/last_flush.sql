-- The batch of a shard with the greatest number; of two histories with that number, the one that was committed later.
-- $1 key prefix and $2 shard count of the epoch; $3 shard.
select last_seq, chain, committed_at
from flush_log
where prefix = $1 and shards = $2 and shard = $3
order by last_seq desc, committed_at desc
limit 1
