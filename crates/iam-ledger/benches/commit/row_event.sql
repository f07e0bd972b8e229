-- Stores one event. One parameter a column, in the order of the list; the start is both the reported one and the one that
-- counts.
insert into usage_events (
    request_id, started_at, reported_start, ended_at, settled_at, organization_id, team_id, project_id, user_id, key_id, scopes,
    provider, model, call_type, status, prompt_tokens, completion_tokens, cached_tokens, cost_usd, time_to_first_token_ms,
    session_id, cache_hit, metadata, extra
)
values (
    $1, $2, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18::text::numeric, $19, $20, $21, $22, $23
)
