-- Deletes the oldest batches of a shard, by number, up to the first that must stay: one that was committed at or after the horizon,
-- or after which none of the rows looked at was committed (the last one is such a row).
-- $1 key prefix and $2 shard count of the epoch; $3 shard; $4 horizon; $5 at most so many.
with oldest as materialized (
    -- Backwards, so that the latest time grows from row to row and is not looked for anew in each.
    select last_seq, chain, committed_at, row_number() over (order by last_seq, chain) as place,
           max(committed_at) over (order by last_seq desc, chain desc rows between unbounded preceding and 1 preceding) as later
    from (
        select last_seq, chain, committed_at
        from flush_log
        where prefix = $1 and shards = $2 and shard = $3
        order by last_seq, chain
        limit 2 * $5::bigint
    ) as looked_at
), staying as (
    select min(last_seq) as first from oldest where committed_at >= $4 or later is null or later < committed_at
), gone as (
    delete from flush_log
    using oldest, staying
    where flush_log.prefix = $1 and flush_log.shards = $2 and flush_log.shard = $3
      and flush_log.last_seq = oldest.last_seq and flush_log.chain = oldest.chain
      and oldest.place <= $5::bigint and oldest.last_seq < staying.first
    returning 1
)
select count(*) as "pruned!" from gone
