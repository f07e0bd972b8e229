-- UTC days whose roll-up is not the sum of their events, the latest first; not those of archived months, which are compared as
-- whole months (audit_archived_months). Amounts as text: they are exact.
-- $1 at most so many.
with event as (
    select (started_at at time zone 'UTC')::date as day, count(*) as events, coalesce(sum(cost_usd), 0) as cost_usd
    from usage_events
    group by 1
), rollup as (
    select day, sum(events) as events, sum(cost_usd) as cost_usd
    from usage_daily
    group by day
)
select day as "day!", coalesce(event.events, 0)::text as "events!", coalesce(rollup.events, 0)::text as "rolled_up!",
       coalesce(event.cost_usd, 0)::text as "cost!", coalesce(rollup.cost_usd, 0)::text as "rolled_up_cost!"
from event
full join rollup using (day)
where (event.events is distinct from rollup.events or event.cost_usd is distinct from rollup.cost_usd)
  and not exists (select from archived_months where month = date_trunc('month', day::timestamp)::date)
order by day desc
limit $1
