-- Stores the events of freshly claimed requests, from rows in the binary format of COPY.
copy usage_events (
    request_id, started_at, reported_start, ended_at, settled_at, organization_id, team_id, project_id, user_id, key_id,
    scopes, provider, model, call_type, status, prompt_tokens, completion_tokens, cached_tokens, cost_usd,
    time_to_first_token_ms, session_id, cache_hit, metadata, extra
) from stdin (format binary)
