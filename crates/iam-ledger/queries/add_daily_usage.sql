-- Adds a batch's sums to the daily roll-up. They arrive summed, one row a key; the order keeps committers from deadlock.
-- Costs come as decimal text, since the sum of a batch may exceed a bigint of picodollars.
-- One array a column.
insert into usage_daily as stored (
    day, organization_id, team_id, project_id, user_id, key_id, provider, model,
    events, unpriced_events, prompt_tokens, completion_tokens, cached_tokens, cost_usd
)
select
    d.day, d.organization_id, d.team_id, d.project_id, d.user_id, d.key_id, d.provider, d.model,
    d.events, d.unpriced_events, d.prompt_tokens, d.completion_tokens, d.cached_tokens, d.cost_usd::numeric
from unnest(
    $1::date[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
    $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::text[]
) as d (
    day, organization_id, team_id, project_id, user_id, key_id, provider, model,
    events, unpriced_events, prompt_tokens, completion_tokens, cached_tokens, cost_usd
)
order by
    d.organization_id collate "C", d.day, d.team_id collate "C", d.project_id collate "C", d.user_id collate "C",
    d.key_id collate "C", d.provider collate "C", d.model collate "C"
on conflict on constraint usage_daily_pkey do update set
    events = stored.events + excluded.events,
    unpriced_events = stored.unpriced_events + excluded.unpriced_events,
    prompt_tokens = stored.prompt_tokens + excluded.prompt_tokens,
    completion_tokens = stored.completion_tokens + excluded.completion_tokens,
    cached_tokens = stored.cached_tokens + excluded.cached_tokens,
    cost_usd = stored.cost_usd + excluded.cost_usd
