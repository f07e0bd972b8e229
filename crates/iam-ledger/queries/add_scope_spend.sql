-- Charges paid events to exactly the scopes that they name, each in the period of the event's start. Period and zone are
-- the scope's at this moment; a scope that no table knows has no period, so its spend is counted from the epoch on.
-- Charges arrive summed by scope and second: an offset of a time zone is a whole number of seconds, so a second never
-- belongs to two periods. The order keeps committers from deadlock.
-- $1 kinds, $2 ids of the charged scopes, none twice; then one row a scope and second: $3 position of its scope in $1, from
-- 1; $4 the second; $5 the sum in USD as decimal text, above zero; $6 how many events it is the sum of.
with charged as (
    select given.position, given.kind, given.id,
           coalesce(scopes.budget_period, 'none') as budget_period,
           coalesce(scopes.budget_time_zone, 'UTC') as budget_time_zone
    from unnest($1::text[], $2::text[]) with ordinality as given (kind, id, position)
    left join scopes on scopes.kind = given.kind and scopes.id = given.id
)
insert into scope_spend as stored (kind, id, period_start, spend_usd, paid_events)
select charged.kind, charged.id,
       period_start(charged.budget_period, charge.second, charged.budget_time_zone) as period_start,
       sum(charge.cost_usd::numeric),
       sum(charge.events)::bigint
from unnest($3::bigint[], $4::timestamptz[], $5::text[], $6::bigint[]) as charge (position, second, cost_usd, events)
join charged using (position)
group by 1, 2, 3
order by charged.kind collate "C", charged.id collate "C", 3
on conflict on constraint scope_spend_pkey do update set
    spend_usd = stored.spend_usd + excluded.spend_usd,
    paid_events = stored.paid_events + excluded.paid_events
