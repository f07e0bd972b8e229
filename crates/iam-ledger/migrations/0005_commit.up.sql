-- What a commit takes, and what becomes of that which it cannot settle.

-- The form in which a batch's events arrive: an array of these is one parameter, in the binary form of each type. A type of its
-- own and not the table's, so that a new column of the table does not change what older programs may send.
create type settled_event as (
    request_id text,
    started_at timestamptz,
    reported_start timestamptz,
    ended_at timestamptz,
    settled_at timestamptz,
    organization_id text,
    team_id text,
    project_id text,
    user_id text,
    key_id text,
    scopes text[],
    provider text,
    model text,
    call_type text,
    status text,
    prompt_tokens bigint,
    completion_tokens bigint,
    cached_tokens bigint,
    cost_usd numeric,
    time_to_first_token_ms bigint,
    session_id text,
    cache_hit boolean,
    metadata jsonb,
    extra jsonb
);
comment on type settled_event is 'A row for usage_events as a commit sends it; each field means what the column of its name does.';

-- What could not be settled is kept whole, so that one entry never stops the others and no bill is lost.
-- The digest makes the same entry in a batch that is run again one letter; both kinds may be recorded of one entry.
create table dead_letters (
    id bigint generated always as identity constraint dead_letters_pkey primary key,
    shard integer not null,
    seq bigint,
    request_id text collate "C",
    kind text not null,
    reason text not null,
    raw bytea not null,
    digest bytea not null generated always as (sha256(raw)) stored,
    recorded_at timestamptz not null,
    replayed_at timestamptz,
    replay_outcome text,
    constraint dead_letters_entry_key unique (digest, kind),
    constraint dead_letters_kind_known check (kind in ('conflict', 'refused')),
    constraint dead_letters_not_negative check (shard >= 0 and seq >= 0),
    constraint dead_letters_replay_outcome_known
        check (replay_outcome in ('settled', 'duplicate', 'conflict', 'refused')),
    constraint dead_letters_replay_whole check ((replayed_at is null) = (replay_outcome is null))
);
create index dead_letters_request_idx on dead_letters (request_id);
-- Letters that wait for somebody: few, however many there ever were.
create index dead_letters_open_idx on dead_letters (id)
    where replay_outcome is null or replay_outcome = 'refused';

comment on table dead_letters is
    'Entries that were not settled: PostgreSQL refused them, or their request id had been settled with another payload.';
comment on column dead_letters.id is 'Number of the letter; those of a later batch are greater.';
comment on column dead_letters.shard is 'Shard of the queue that the entry came from.';
comment on column dead_letters.seq is 'Sequence number of the entry. Null: it had none, or one beyond a bigint.';
comment on column dead_letters.request_id is 'Request id of the entry. Null: one that a text column cannot hold.';
comment on column dead_letters.kind is
    'conflict: the request id was settled with another payload, which stays. refused: PostgreSQL did not accept the entry.';
comment on column dead_letters.reason is 'What was wrong, with SQLSTATE and constraint where the server named them; no row values.';
comment on column dead_letters.raw is 'The whole entry, byte for byte as the queue held it.';
comment on column dead_letters.digest is 'SHA-256 of raw; with the kind, what makes a letter unique.';
comment on column dead_letters.recorded_at is 'Committer''s time at the commit of the batch.';
comment on column dead_letters.replayed_at is 'When the letter was last replayed. Null: never.';
comment on column dead_letters.replay_outcome is
    'What the last replay did. settled: it counts now. duplicate: it counted already. conflict: another payload had been settled. refused: still refused.';
