-- Where the record of flushed batches does not continue: numbers that no batch has, and numbers that two histories have.
-- $1 at most so many; $2 key prefix and $3 shard count of the epoch.
with batch as (
    select shard, first_seq, last_seq,
           max(last_seq) over (partition by shard order by first_seq, last_seq
                               rows between unbounded preceding and 1 preceding) as covered
    from flush_log
    where prefix = $2 and shards = $3
), gap as (
    select shard, covered + 1 as first_seq, first_seq - 1 as last_seq
    from batch
    where first_seq > covered + 1
), fork as (
    select shard, last_seq as first_seq, last_seq
    from flush_log
    where prefix = $2 and shards = $3
    group by shard, last_seq
    having count(distinct chain) > 1
)
select shard as "shard!", first_seq as "first_seq!", last_seq as "last_seq!", 'gap' as "kind!" from gap
union all
select shard, first_seq, last_seq, 'fork' from fork
order by 1, 2, 4
limit $1
