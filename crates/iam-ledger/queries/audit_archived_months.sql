-- Archived months, the latest first: what was recorded of each, what came since then and is stored, and what the roll-up has.
-- $1 at most so many.
select archived.month as "month!", archived.events as "archived_events!", archived.cost_usd::text as "archived_cost!",
       event.events as "stored_events!", event.cost_usd::text as "stored_cost!",
       rollup.events as "rolled_up!", rollup.cost_usd::text as "rolled_up_cost!"
from archived_months as archived
cross join lateral (
    select count(*) as events, coalesce(sum(cost_usd), 0) as cost_usd
    from usage_events
    where started_at >= archived.month::timestamp at time zone 'UTC'
      and started_at < (archived.month + interval '1 month') at time zone 'UTC'
) as event
cross join lateral (
    select coalesce(sum(events), 0)::bigint as events, coalesce(sum(cost_usd), 0) as cost_usd
    from usage_daily
    where day >= archived.month and day < (archived.month + interval '1 month')::date
) as rollup
order by archived.month desc
limit $1
