-- Stores the events of freshly claimed requests. Amounts come as whole picodollars, and a product of numerics is exact.
-- Scopes come as one text an event with U+001F between them, which no scope can contain: arrays of arrays must be
-- rectangular.
-- $1 commit time; $2 and following: one array a column.
insert into usage_events (
    settled_at, request_id, started_at, reported_start, ended_at, organization_id, team_id, project_id, user_id, key_id, scopes,
    provider, model, call_type, status, prompt_tokens, completion_tokens, cached_tokens, cost_usd, time_to_first_token_ms,
    session_id, cache_hit, metadata, extra
)
select
    $1::timestamptz, e.request_id, e.started_at, e.reported_start, e.ended_at,
    e.organization_id, e.team_id, e.project_id, e.user_id, e.key_id, string_to_array(e.scopes, E'\x1f'),
    e.provider, e.model, e.call_type, e.status, e.prompt_tokens, e.completion_tokens, e.cached_tokens,
    e.cost_pusd * 0.000000000001, e.time_to_first_token_ms, e.session_id, e.cache_hit, e.metadata::jsonb, e.extra::jsonb
from unnest(
    $2::text[], $3::timestamptz[], $4::timestamptz[], $5::timestamptz[],
    $6::text[], $7::text[], $8::text[], $9::text[], $10::text[], $11::text[],
    $12::text[], $13::text[], $14::text[], $15::text[], $16::bigint[], $17::bigint[], $18::bigint[],
    $19::bigint[], $20::bigint[], $21::text[], $22::boolean[], $23::text[], $24::text[]
) as e (
    request_id, started_at, reported_start, ended_at, organization_id, team_id, project_id, user_id, key_id, scopes,
    provider, model, call_type, status, prompt_tokens, completion_tokens, cached_tokens,
    cost_pusd, time_to_first_token_ms, session_id, cache_hit, metadata, extra
)
