-- Charges paid events to exactly the scopes that they name, each in the period of the event's start, and in its quarter of an hour.
-- Period and zone are the scope's at this moment; a scope that no table knows has no period, so its spend is counted from the
-- epoch on. A change of either waits until this transaction ends (claim_requests.sql takes the lock), then moves what it charged.
-- Charges arrive summed by scope and quarter, which belongs to one period in every zone. The order keeps committers from deadlock.
-- $1 kinds, $2 ids of the charged scopes, none twice; then one row a scope and quarter: $3 position of its scope in $1, from
-- 1; $4 the quarter's first instant; $5 the sum in USD as decimal text, above zero; $6 how many events it is the sum of.
with charged as (
    select given.position, given.kind, given.id,
           coalesce(scopes.budget_period, 'none') as budget_period,
           coalesce(scopes.budget_time_zone, 'UTC') as budget_time_zone
    from unnest($1::text[], $2::text[]) with ordinality as given (kind, id, position)
    left join scopes on scopes.kind = given.kind and scopes.id = given.id
), charge as materialized (
    select charged.kind, charged.id, given.quarter, given.cost_usd::numeric as cost_usd, given.events,
           period_start(charged.budget_period, given.quarter, charged.budget_time_zone) as period_start
    from unnest($3::bigint[], $4::timestamptz[], $5::text[], $6::bigint[]) as given (position, quarter, cost_usd, events)
    join charged using (position)
), by_quarter as (
    insert into scope_spend_quarters as stored (kind, id, quarter, spend_usd, paid_events)
    select kind, id, quarter, cost_usd, events
    from charge
    order by kind collate "C", id collate "C", quarter
    on conflict on constraint scope_spend_quarters_pkey do update set
        spend_usd = stored.spend_usd + excluded.spend_usd,
        paid_events = stored.paid_events + excluded.paid_events
)
insert into scope_spend as stored (kind, id, period_start, spend_usd, paid_events)
select kind, id, period_start, sum(cost_usd), sum(events)::bigint
from charge
group by 1, 2, 3
order by kind collate "C", id collate "C", 3
on conflict on constraint scope_spend_pkey do update set
    spend_usd = stored.spend_usd + excluded.spend_usd,
    paid_events = stored.paid_events + excluded.paid_events
