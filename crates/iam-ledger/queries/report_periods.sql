-- Spend by scope and budget period that began in the range, newest first.
-- $1 an organization (empty: without one), null for all; $2 first UTC day, null for the beginning; $3 UTC day after the
-- last, null for the end; $4 at most so many rows.
select kind as "kind!", id as "id!", organization_id, period_start as "period_start!",
       spend_usd::text as "spend_usd!", paid_events as "paid_events!", budget_usd::text as budget_usd, budget_period
from spend_by_period
where ($1::text is null or coalesce(organization_id, '') = $1)
  and ($2::date is null or period_start >= $2::date::timestamp at time zone 'UTC')
  and ($3::date is null or period_start < $3::date::timestamp at time zone 'UTC')
order by period_start desc, kind, id
limit $4
