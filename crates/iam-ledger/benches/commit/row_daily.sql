-- Adds one event to the sums of its day. $1 day; $2 to $8 ownership, provider and model; $9 to $11 tokens; $12 cost.
insert into usage_daily as stored (
    day, organization_id, team_id, project_id, user_id, key_id, provider, model,
    events, unpriced_events, prompt_tokens, completion_tokens, cached_tokens, cost_usd
)
values ($1, $2, $3, $4, $5, $6, $7, $8, 1, 0, $9, $10, $11, $12::text::numeric)
on conflict on constraint usage_daily_pkey do update set
    events = stored.events + 1,
    prompt_tokens = stored.prompt_tokens + excluded.prompt_tokens,
    completion_tokens = stored.completion_tokens + excluded.completion_tokens,
    cached_tokens = stored.cached_tokens + excluded.cached_tokens,
    cost_usd = stored.cost_usd + excluded.cost_usd
