-- Deletes quarters of an hour that began before every period that may still be running.
-- $1 at most so many.
with old as materialized (
    select kind, id, quarter
    from scope_spend_quarters
    where quarter < now() - interval '70 days'
    limit $1
    for update skip locked
), gone as (
    delete from scope_spend_quarters as stored
    using old
    where stored.kind = old.kind and stored.id = old.id and stored.quarter = old.quarter
    returning 1
)
select count(*) as "pruned!" from gone
