-- Usage by day, organization, provider and model.
-- $1 an organization, null for all; $2 first day; $3 day after the last.
select
    day, organization_id, provider, model,
    sum(events)::bigint as "events!",
    sum(unpriced_events)::bigint as "unpriced_events!",
    sum(prompt_tokens)::bigint as "prompt_tokens!",
    sum(completion_tokens)::bigint as "completion_tokens!",
    sum(cached_tokens)::bigint as "cached_tokens!",
    sum(cost_usd)::text as "cost_usd!"
from usage_daily
where ($1::text is null or organization_id = $1) and day >= $2 and day < $3
group by day, organization_id, provider, model
order by day, organization_id, provider, model
