-- Where rows arrive that are then settled by statements over the whole set.
create temporary table staging (
    seq bigint, request_id text collate "C", payload_check bytea, started_at timestamptz, ended_at timestamptz,
    settled_at timestamptz, organization_id text, team_id text, project_id text, user_id text, key_id text, scopes text[],
    provider text, model text, call_type text, status text, prompt_tokens bigint, completion_tokens bigint,
    cached_tokens bigint, cost_usd numeric(30, 12), time_to_first_token_ms bigint, session_id text, cache_hit boolean,
    metadata jsonb, extra jsonb
) on commit delete rows
