-- Overruns that were settled in the range, newest first.
-- $1 an organization (empty: without one), null for all; $2 first UTC day, null for the beginning; $3 UTC day after the
-- last, null for the end; $4 at most so many rows.
select request_id as "request_id!", kind as "kind!", id as "id!", organization_id, amount_usd::text as "amount_usd!",
       cost_usd::text as "cost_usd!", overrun_usd::text as "overrun_usd!", settled_at as "settled_at!", covered as "covered!"
from hold_overruns
where ($1::text is null or coalesce(organization_id, '') = $1)
  and ($2::date is null or settled_at >= $2::date::timestamp at time zone 'UTC')
  and ($3::date is null or settled_at < $3::date::timestamp at time zone 'UTC')
order by settled_at desc, request_id
limit $4
