-- Usage by model over all days, the dearest first.
-- $1 an organization (empty: usage without one), null for all; $2 first UTC day, null for the beginning; $3 UTC day after the
-- last, null for the end; $4 at most so many rows.
select organization_id as "organization_id!", provider as "provider!", model as "model!",
       sum(events)::bigint as "events!", sum(unpriced_events)::bigint as "unpriced_events!",
       sum(prompt_tokens)::bigint as "prompt_tokens!", sum(completion_tokens)::bigint as "completion_tokens!",
       sum(cached_tokens)::bigint as "cached_tokens!", sum(cost_usd)::text as "cost_usd!"
from usage_by_model
where ($1::text is null or organization_id = $1) and ($2::date is null or day >= $2) and ($3::date is null or day < $3)
group by organization_id, provider, model
order by sum(cost_usd) desc, organization_id, provider, model
limit $4
