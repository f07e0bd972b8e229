-- Records what a batch could not settle. The same entry again, in a batch that is run again, keeps its first letter.
-- The order makes two committers of the same entries wait for each other in one direction only.
-- $1 shard; $2 commit time; then one array a column: $3 sequence numbers; $4 request ids; $5 kinds; $6 reasons; $7 entries.
insert into dead_letters (shard, recorded_at, seq, request_id, kind, reason, raw)
select $1::integer, $2::timestamptz, given.seq, given.request_id, given.kind, given.reason, given.raw
from unnest($3::bigint[], $4::text[], $5::text[], $6::text[], $7::bytea[]) as given (seq, request_id, kind, reason, raw)
order by sha256(given.raw), given.kind
on conflict on constraint dead_letters_entry_key do nothing
