-- Usage by day, newest first.
-- $1 an organization (empty: usage without one), null for all; $2 first UTC day, null for the beginning; $3 UTC day after the
-- last, null for the end; $4 at most so many rows.
select day as "day!", organization_id as "organization_id!", events as "events!", unpriced_events as "unpriced_events!", prompt_tokens as "prompt_tokens!",
       completion_tokens as "completion_tokens!", cached_tokens as "cached_tokens!", cost_usd::text as "cost_usd!"
from usage_by_day
where ($1::text is null or organization_id = $1) and ($2::date is null or day >= $2) and ($3::date is null or day < $3)
order by day desc, organization_id
limit $4
