-- Takes one dead letter for a replay: of two operators who replay it at once, the second waits and sees what the first did.
-- $1 id.
select id, shard, seq, request_id, kind, reason, octet_length(raw) as "bytes!", recorded_at, replayed_at, replay_outcome,
       raw as "raw?"
from dead_letters
where id = $1
for update
