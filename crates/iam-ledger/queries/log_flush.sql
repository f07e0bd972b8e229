-- Records a batch. The same batch again, after a crash between commit and acknowledgement, keeps its first record.
-- $1 shard; $2 first and $3 last sequence number; $4 link of the last entry; $5 entries; $6 commit time.
insert into flush_log (shard, first_seq, last_seq, chain, events, committed_at)
values ($1, $2, $3, $4, $5, $6)
on conflict on constraint flush_log_pkey do nothing
