-- The epochs that the record of flushed batches knows, the one with the latest batch first.
select prefix, shards, count(*) as "batches!", max(committed_at) as "last_committed_at!"
from flush_log
group by prefix, shards
order by 4 desc, 1, 2
