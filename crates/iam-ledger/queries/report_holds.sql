-- Holds that are open, made in the range, newest first.
-- $1 an organization (empty: without one), null for all; $2 first UTC day, null for the beginning; $3 UTC day after the
-- last, null for the end; $4 at most so many rows.
select request_id as "request_id!", kind as "kind!", id as "id!", organization_id, amount_usd::text as "amount_usd!",
       held_at as "held_at!", expires_at as "expires_at!"
from open_holds
where ($1::text is null or coalesce(organization_id, '') = $1)
  and ($2::date is null or held_at >= $2::date::timestamp at time zone 'UTC')
  and ($3::date is null or held_at < $3::date::timestamp at time zone 'UTC')
order by held_at desc, request_id
limit $4
