-- Letters that wait for somebody, with their entries, in the order of their recording.
-- $1 the last id of the page before, 0 for the first page; $2 page size.
select id, shard, kind, raw
from dead_letters
where id > $1 and (replay_outcome is null or replay_outcome = 'refused')
order by id
limit $2
