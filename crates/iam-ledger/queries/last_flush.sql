-- The batch of a shard that was committed last.
select last_seq, chain
from flush_log
where shard = $1
order by committed_at desc, last_seq desc
limit 1
