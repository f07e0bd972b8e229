-- Dead letters in the order of their recording, without the entries themselves.
-- $1 the last id of the page before, 0 for the first page; $2 page size; $3 whether to leave out those that are done with.
select id, shard, seq, request_id, kind, reason, octet_length(raw) as "bytes!", recorded_at, replayed_at, replay_outcome,
       null::bytea as raw
from dead_letters
where id > $1
  and (not $3::boolean or replay_outcome is null or replay_outcome = 'refused')
order by id
limit $2
