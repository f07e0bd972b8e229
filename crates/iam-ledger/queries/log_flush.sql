-- Records a batch. The same batch again, after a crash between commit and acknowledgement, keeps its first record.
-- $1 key prefix and $2 shard count of the epoch; $3 shard; $4 first and $5 last sequence number; $6 link of the last entry;
-- $7 entries; $8 commit time.
insert into flush_log (prefix, shards, shard, first_seq, last_seq, chain, events, committed_at)
values ($1, $2, $3, $4, $5, $6, $7, $8)
on conflict on constraint flush_log_pkey do nothing
