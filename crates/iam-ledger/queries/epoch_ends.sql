-- The greatest number of each shard of an epoch.
-- $1 key prefix and $2 shard count of the epoch.
select shard, max(last_seq) as "last_seq!"
from flush_log
where prefix = $1 and shards = $2
group by shard
order by shard
