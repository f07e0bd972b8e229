-- One dead letter with its entry.
-- $1 id.
select id, shard, seq, request_id, kind, reason, octet_length(raw) as "bytes!", recorded_at, replayed_at, replay_outcome,
       raw as "raw?"
from dead_letters
where id = $1
