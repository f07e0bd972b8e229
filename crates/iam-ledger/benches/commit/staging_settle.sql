-- Settles what is in the staging table, every row as a new one: no duplicate is looked for, so this is the least that any
-- correct way must do.
insert into settled_requests (request_id, payload_check, settled_at)
select request_id, payload_check, settled_at from staging order by request_id
on conflict on constraint settled_requests_pkey do nothing;

insert into usage_events (
    request_id, started_at, reported_start, ended_at, settled_at, organization_id, team_id, project_id, user_id, key_id, scopes,
    provider, model, call_type, status, prompt_tokens, completion_tokens, cached_tokens, cost_usd, time_to_first_token_ms,
    session_id, cache_hit, metadata, extra
)
select request_id, started_at, started_at, ended_at, settled_at, organization_id, team_id, project_id, user_id, key_id, scopes,
       provider, model, call_type, status, prompt_tokens, completion_tokens, cached_tokens, cost_usd, time_to_first_token_ms,
       session_id, cache_hit, metadata, extra
from staging;

insert into usage_daily as stored (
    day, organization_id, team_id, project_id, user_id, key_id, provider, model,
    events, unpriced_events, prompt_tokens, completion_tokens, cached_tokens, cost_usd
)
select (started_at at time zone 'UTC')::date as day, organization_id, coalesce(team_id, ''), coalesce(project_id, ''),
       coalesce(user_id, ''), coalesce(key_id, ''), provider, model,
       count(*), count(*) filter (where cost_usd is null), sum(prompt_tokens), sum(completion_tokens), sum(cached_tokens),
       coalesce(sum(cost_usd), 0)
from staging
group by 1, 2, 3, 4, 5, 6, 7, 8
order by 2, 1, 3, 4, 5, 6, 7, 8
on conflict on constraint usage_daily_pkey do update set
    events = stored.events + excluded.events,
    unpriced_events = stored.unpriced_events + excluded.unpriced_events,
    prompt_tokens = stored.prompt_tokens + excluded.prompt_tokens,
    completion_tokens = stored.completion_tokens + excluded.completion_tokens,
    cached_tokens = stored.cached_tokens + excluded.cached_tokens,
    cost_usd = stored.cost_usd + excluded.cost_usd;

with charge as (
    select split_part(scope, '/', 1) as kind, substr(scope, strpos(scope, '/') + 1) as id,
           date_trunc('second', started_at) as second, sum(cost_usd) as cost_usd, count(*) as events
    from staging, unnest(scopes) as scope
    where cost_usd > 0
    group by 1, 2, 3
)
insert into scope_spend as stored (kind, id, period_start, spend_usd, paid_events)
select charge.kind, charge.id,
       period_start(coalesce(scopes.budget_period, 'none'), charge.second, coalesce(scopes.budget_time_zone, 'UTC')),
       sum(charge.cost_usd), sum(charge.events)
from charge
left join scopes on scopes.kind = charge.kind and scopes.id = charge.id
group by 1, 2, 3
order by 1, 2, 3
on conflict on constraint scope_spend_pkey do update set
    spend_usd = stored.spend_usd + excluded.spend_usd,
    paid_events = stored.paid_events + excluded.paid_events;

insert into flush_log (prefix, shards, shard, first_seq, last_seq, chain, events, committed_at)
select 'tallyweir', 1, 0, min(seq), max(seq), decode(repeat('00', 20), 'hex'), count(*), max(settled_at) from staging
on conflict on constraint flush_log_pkey do nothing;
