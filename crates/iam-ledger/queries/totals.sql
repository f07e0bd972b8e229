-- What the ledger holds, in one statement and so of one moment. Sums leave as decimal text.
select
    (select count(*) from settled_requests) as "settled_requests!",
    event.events as "events!",
    event.unpriced_events as "unpriced_events!",
    event.cost_usd::text as "cost_by_events!",
    day.events as "daily_events!",
    day.cost_usd::text as "cost_by_days!"
from
    (select count(*) as events, count(*) filter (where cost_usd is null) as unpriced_events,
            coalesce(sum(cost_usd), 0) as cost_usd
     from usage_events) as event,
    (select coalesce(sum(events), 0)::bigint as events, coalesce(sum(cost_usd), 0) as cost_usd
     from usage_daily) as day
