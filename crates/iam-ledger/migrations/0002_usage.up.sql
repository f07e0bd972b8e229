-- What was used and what it cost, each request exactly once.

-- The permanent guard: not partitioned, since a unique constraint of a partitioned table must contain the partition key,
-- and one id on two days would then count twice.
create table settled_requests (
    request_id text collate "C" constraint settled_requests_pkey primary key,
    payload_check bytea not null,
    settled_at timestamptz not null,
    constraint settled_requests_request_id_length check (octet_length(request_id) between 1 and 128),
    constraint settled_requests_payload_check_length check (octet_length(payload_check) = 16)
);

-- No foreign keys to the identities: a bill is kept although its team was deleted, or was never known here.
create table usage_events (
    request_id text collate "C" not null,
    started_at timestamptz not null,
    reported_start timestamptz,
    ended_at timestamptz,
    settled_at timestamptz not null,
    organization_id text collate "C",
    team_id text collate "C",
    project_id text collate "C",
    user_id text collate "C",
    key_id text collate "C",
    scopes text[] not null,
    provider text collate "C" not null,
    model text collate "C" not null,
    call_type text not null,
    status text not null,
    prompt_tokens bigint not null,
    completion_tokens bigint not null,
    cached_tokens bigint not null,
    cost_usd numeric(30, 12),
    time_to_first_token_ms bigint,
    session_id text,
    cache_hit boolean not null,
    metadata jsonb not null,
    extra jsonb not null,
    constraint usage_events_pkey primary key (request_id, started_at),
    constraint usage_events_tokens_not_negative check (prompt_tokens >= 0 and completion_tokens >= 0 and cached_tokens >= 0),
    constraint usage_events_cost_not_negative check (cost_usd >= 0)
) partition by range (started_at);
create table usage_events_default partition of usage_events default;

-- Some free space in each page keeps the updates of hot rows on it, without touching an index.
create table usage_daily (
    day date not null,
    organization_id text collate "C" not null,
    team_id text collate "C" not null,
    project_id text collate "C" not null,
    user_id text collate "C" not null,
    key_id text collate "C" not null,
    provider text collate "C" not null,
    model text collate "C" not null,
    events bigint not null,
    unpriced_events bigint not null,
    prompt_tokens bigint not null,
    completion_tokens bigint not null,
    cached_tokens bigint not null,
    cost_usd numeric(30, 12) not null,
    constraint usage_daily_pkey
        primary key (organization_id, day, team_id, project_id, user_id, key_id, provider, model),
    constraint usage_daily_events_range check (events > 0 and unpriced_events between 0 and events)
) with (fillfactor = 80);
create index usage_daily_day_idx on usage_daily (day);

create table scope_spend (
    kind text collate "C" not null,
    id text collate "C" not null,
    period_start timestamptz not null,
    spend_usd numeric(30, 12) not null,
    paid_events bigint not null,
    constraint scope_spend_pkey primary key (kind, id, period_start),
    constraint scope_spend_only_paid check (spend_usd > 0 and paid_events > 0)
) with (fillfactor = 80);

-- What makes spend exact under another period or zone than the one that it was charged under: in every time zone in force a day
-- begins on a quarter of an hour. Budgets never read it.
create table scope_spend_quarters (
    kind text collate "C" not null,
    id text collate "C" not null,
    quarter timestamptz not null,
    spend_usd numeric(30, 12) not null,
    paid_events bigint not null,
    constraint scope_spend_quarters_pkey primary key (kind, id, quarter),
    constraint scope_spend_quarters_only_paid check (spend_usd > 0 and paid_events > 0)
) with (fillfactor = 80);
create index scope_spend_quarters_age_idx on scope_spend_quarters using brin (quarter);

create table flush_log (
    prefix text collate "C" not null,
    shards integer not null,
    shard integer not null,
    first_seq bigint not null,
    last_seq bigint not null,
    chain bytea not null,
    events integer not null,
    committed_at timestamptz not null,
    constraint flush_log_pkey primary key (prefix, shards, shard, last_seq, chain),
    constraint flush_log_epoch check (octet_length(prefix) between 1 and 64 and shards between 1 and 16384),
    constraint flush_log_chain_length check (octet_length(chain) = 20),
    constraint flush_log_not_negative check (first_seq >= 0 and last_seq >= 0 and events > 0)
);

-- Stable and not immutable: the rules of a time zone change when its law does. An unknown period is an error on purpose.
create function period_start(period text, instant timestamptz, zone text) returns timestamptz
    language sql stable parallel safe
return case period
    when 'none' then timestamptz '1970-01-01 00:00:00+00'
    when 'daily' then date_trunc('day', instant, zone)
    when 'weekly' then date_trunc('week', instant, zone)
    when 'monthly' then date_trunc('month', instant, zone)
end;
comment on function period_start(text, timestamptz, text) is
    'The first instant of the budget period that an instant belongs to, in the time zone; the Unix epoch for the period none.';

-- A month may be asked for after events of it went to the default partition, which then must give them up: PostgreSQL
-- refuses a partition whose rows the default one holds. They are moved in the same transaction, under a lock.
create function ensure_usage_partitions(first_month date, months integer) returns integer
    language plpgsql
    set search_path from current
as $$
declare
    month_start date;
    lower_bound timestamptz;
    upper_bound timestamptz;
    partition_name text;
    created integer := 0;
begin
    -- Conflicts with itself and not with inserts: two callers take turns, commits go on.
    lock table usage_events in share update exclusive mode;
    for offset_months in 0 .. months - 1 loop
        month_start := (date_trunc('month', first_month::timestamp) + make_interval(months => offset_months))::date;
        partition_name := 'usage_events_' || to_char(month_start, 'YYYY_MM');
        continue when to_regclass(quote_ident(partition_name)) is not null;
        lower_bound := month_start::timestamp at time zone 'UTC';
        upper_bound := (month_start + interval '1 month') at time zone 'UTC';
        lock table usage_events_default in access exclusive mode;
        execute format('create table %I (like usage_events including all)', partition_name);
        execute format(
            'with moved as (delete from usage_events_default where started_at >= %L and started_at < %L returning *) '
            'insert into %I select * from moved',
            lower_bound, upper_bound, partition_name);
        execute format('alter table usage_events attach partition %I for values from (%L) to (%L)',
            partition_name, lower_bound, upper_bound);
        created := created + 1;
    end loop;
    return created;
end
$$;
comment on function ensure_usage_partitions(date, integer) is
    'Makes the missing monthly partitions of usage_events, from the month of a date on, and returns how many it made.';

comment on table settled_requests is 'Every request that was ever settled: the permanent guard against charging one twice.';
comment on column settled_requests.request_id is 'The idempotency key, 1 to 128 bytes.';
comment on column settled_requests.payload_check is 'First 16 bytes of the SHA-256 of the first payload; tells a retry from a conflict.';
comment on column settled_requests.settled_at is 'Committer''s time at the commit.';

comment on table usage_events is 'Settled events, one a request, partitioned by the UTC month of started_at.';
comment on table usage_events_default is 'Events of months that have no partition, so that no date is ever refused.';
comment on column usage_events.request_id is 'The request; unique through settled_requests.';
comment on column usage_events.started_at is 'The instant that decides day and period: the reported start, else the end, else the commit.';
comment on column usage_events.reported_start is 'When the call started as its gateway reported it. Null: not reported.';
comment on column usage_events.ended_at is 'When the call ended. Null: not reported.';
comment on column usage_events.settled_at is 'Committer''s time at the commit.';
comment on column usage_events.organization_id is 'Organization as reported. Null: none.';
comment on column usage_events.team_id is 'Team as reported. Null: none.';
comment on column usage_events.project_id is 'Project as reported. Null: none.';
comment on column usage_events.user_id is 'User as reported. Null: none.';
comment on column usage_events.key_id is 'Stable id of the key as reported. Null: none.';
comment on column usage_events.scopes is 'Exactly the scopes that were charged, as kind/id.';
comment on column usage_events.provider is 'Who ran the model; may be empty.';
comment on column usage_events.model is 'The model that answered.';
comment on column usage_events.call_type is 'The kind of call, such as chat; may be empty.';
comment on column usage_events.status is 'How the call ended; may be empty.';
comment on column usage_events.prompt_tokens is 'Input tokens, 0 to 2^40.';
comment on column usage_events.completion_tokens is 'Output tokens, 0 to 2^40.';
comment on column usage_events.cached_tokens is 'Input tokens that were served from a cache, 0 to 2^40.';
comment on column usage_events.cost_usd is 'What the call costs in USD. Null: unpriced. 0: free.';
comment on column usage_events.time_to_first_token_ms is 'Milliseconds until the first token. Null: not reported.';
comment on column usage_events.session_id is 'The caller''s session. Null: none.';
comment on column usage_events.cache_hit is 'Whether the gateway answered from its own cache.';
comment on column usage_events.metadata is 'What the host keeps with the event; an object.';
comment on column usage_events.extra is 'Fields that the committing release did not know, as they came; an object.';

comment on table usage_daily is 'Sums of usage_events by UTC day, full ownership, provider and model; updated in the same transaction.';
comment on column usage_daily.day is 'UTC day of usage_events.started_at.';
comment on column usage_daily.organization_id is 'Organization; empty for none.';
comment on column usage_daily.team_id is 'Team; empty for none.';
comment on column usage_daily.project_id is 'Project; empty for none.';
comment on column usage_daily.user_id is 'User; empty for none.';
comment on column usage_daily.key_id is 'Stable id of the key; empty for none.';
comment on column usage_daily.provider is 'Provider; empty for none.';
comment on column usage_daily.model is 'Model.';
comment on column usage_daily.events is 'Number of events, free and unpriced ones included.';
comment on column usage_daily.unpriced_events is 'How many of them have no cost.';
comment on column usage_daily.prompt_tokens is 'Sum of input tokens.';
comment on column usage_daily.completion_tokens is 'Sum of output tokens.';
comment on column usage_daily.cached_tokens is 'Sum of cached input tokens.';
comment on column usage_daily.cost_usd is 'Exact sum of the costs in USD.';

comment on table scope_spend_quarters is
    'The same sums by quarter of an hour, for the months in which a budget''s period may be running; a change of period or zone moves spend by them.';
comment on column scope_spend_quarters.kind is 'Kind of the charged scope.';
comment on column scope_spend_quarters.id is 'Id of the charged scope.';
comment on column scope_spend_quarters.quarter is 'First instant of the quarter of an hour that usage_events.started_at fell in.';
comment on column scope_spend_quarters.spend_usd is 'Exact sum of the costs charged to the scope, in USD.';
comment on column scope_spend_quarters.paid_events is 'How many events with a cost above zero it is the sum of.';

comment on table scope_spend is 'Settled spend of every charged scope by budget period; updated in the same transaction as its events.';
comment on column scope_spend.kind is 'Kind of the scope: organization, team, project, user, key or any other word.';
comment on column scope_spend.id is 'Id of the scope within its kind.';
comment on column scope_spend.period_start is
    'First instant of the period that usage_events.started_at fell in, by the scope''s configuration now; the Unix epoch for a scope without a period.';
comment on column scope_spend.spend_usd is 'Exact sum of the costs charged to the scope, in USD.';
comment on column scope_spend.paid_events is 'How many events with a cost above zero it is the sum of.';

comment on table flush_log is 'Every committed batch, to be compared with the queue: a chain that does not continue means lost or rewound data.';
comment on column flush_log.prefix is 'Key prefix of the deployment that the batch is from. With the shard count it names an epoch: numbers compare within one.';
comment on column flush_log.shards is 'Number of shards of that deployment.';
comment on column flush_log.shard is 'Shard of the queue.';
comment on column flush_log.first_seq is 'Sequence number of the first entry.';
comment on column flush_log.last_seq is 'Sequence number of the last entry.';
comment on column flush_log.chain is 'SHA-1 link of the last entry, which proves all before it.';
comment on column flush_log.events is 'Number of entries, duplicates included.';
comment on column flush_log.committed_at is 'Committer''s time at the first commit of the batch.';
