-- Stores the events of freshly claimed requests: one parameter, whose rows need no text to parse and no array a column to
-- take apart.
-- $1 the rows.
insert into usage_events (
    request_id, started_at, reported_start, ended_at, settled_at, organization_id, team_id, project_id, user_id, key_id, scopes,
    provider, model, call_type, status, prompt_tokens, completion_tokens, cached_tokens, cost_usd, time_to_first_token_ms,
    session_id, cache_hit, metadata, extra
)
select
    e.request_id, e.started_at, e.reported_start, e.ended_at, e.settled_at, e.organization_id, e.team_id, e.project_id,
    e.user_id, e.key_id, e.scopes, e.provider, e.model, e.call_type, e.status, e.prompt_tokens, e.completion_tokens,
    e.cached_tokens, e.cost_usd, e.time_to_first_token_ms, e.session_id, e.cache_hit, e.metadata, e.extra
from unnest($1::settled_event[]) as e
