-- What an audit must know of bills that it cannot see in usage_events or in the queue: months that were archived, and what
-- gateways say that they hold on their disks.

create table archived_months (
    month date constraint archived_months_pkey primary key,
    events bigint not null,
    unpriced_events bigint not null,
    cost_usd numeric(30, 12) not null,
    archived_at timestamptz not null default now(),
    constraint archived_months_first_day check (month = date_trunc('month', month::timestamp)::date),
    constraint archived_months_events_range check (events >= 0 and unpriced_events between 0 and events)
);

create table archived_scope_spend (
    month date not null constraint archived_scope_spend_month_fkey references archived_months on delete cascade,
    scope text collate "C" not null,
    events bigint not null,
    spend_usd numeric(30, 12) not null,
    constraint archived_scope_spend_pkey primary key (month, scope),
    constraint archived_scope_spend_only_paid check (events > 0 and spend_usd > 0)
);

-- Writes to the month stop while it is read; those to other months go on until the detaching itself, which takes a moment, but waits
-- for whoever reads usage_events, and all commits behind it. So it gives up after three seconds, with nothing archived.
create function archive_usage_month(any_day date) returns text
    language plpgsql
    set search_path from current
    set lock_timeout = '3s'
as $$
declare
    first_day date := date_trunc('month', any_day::timestamp)::date;
    next_month date := (date_trunc('month', any_day::timestamp) + interval '1 month')::date;
    partition_name text := 'usage_events_' || to_char(any_day, 'YYYY_MM');
    stored record;
    rolled_up record;
    unclaimed bigint;
begin
    if next_month::timestamp at time zone 'UTC' > now() then
        raise exception '% has not ended: only a month that is over can be archived', to_char(first_day, 'YYYY-MM')
            using errcode = 'object_not_in_prerequisite_state';
    end if;
    if not exists (
        select from pg_inherits
        where inhparent = 'usage_events'::regclass and inhrelid = to_regclass(quote_ident(partition_name))
    ) then
        raise exception '% is no partition of usage_events: it was archived, or never made', partition_name
            using errcode = 'undefined_table';
    end if;
    execute format('lock table %I in share mode', partition_name);
    execute format(
        'select count(*) as events, count(*) filter (where cost_usd is null) as unpriced_events, '
        'coalesce(sum(prompt_tokens), 0) as prompt_tokens, coalesce(sum(completion_tokens), 0) as completion_tokens, '
        'coalesce(sum(cached_tokens), 0) as cached_tokens, coalesce(sum(cost_usd), 0) as cost_usd from %I', partition_name)
        into stored;
    select coalesce(sum(events), 0) as events, coalesce(sum(unpriced_events), 0) as unpriced_events,
           coalesce(sum(prompt_tokens), 0) as prompt_tokens, coalesce(sum(completion_tokens), 0) as completion_tokens,
           coalesce(sum(cached_tokens), 0) as cached_tokens, coalesce(sum(cost_usd), 0) as cost_usd
        into rolled_up
        from usage_daily
        where day >= first_day and day < next_month;
    if (stored.events, stored.unpriced_events, stored.prompt_tokens, stored.completion_tokens, stored.cached_tokens, stored.cost_usd)
        is distinct from
        (rolled_up.events, rolled_up.unpriced_events, rolled_up.prompt_tokens, rolled_up.completion_tokens,
         rolled_up.cached_tokens, rolled_up.cost_usd)
    then
        raise exception '% has % events for % USD, the roll-up has % for % USD: mend that first, nothing was archived',
            partition_name, stored.events, stored.cost_usd, rolled_up.events, rolled_up.cost_usd
            using errcode = 'data_exception';
    end if;
    execute format(
        'select count(*) from %I as event '
        'where not exists (select from settled_requests as request where request.request_id = event.request_id)',
        partition_name)
        into unclaimed;
    if unclaimed > 0 then
        raise exception '% has % events without a settled request: mend that first, nothing was archived', partition_name, unclaimed
            using errcode = 'data_exception';
    end if;
    insert into archived_months (month, events, unpriced_events, cost_usd)
        values (first_day, stored.events, stored.unpriced_events, stored.cost_usd);
    execute format(
        'insert into archived_scope_spend (month, scope, events, spend_usd) '
        'select %L, scope, count(*), sum(cost_usd) from %I, unnest(scopes) as scope where cost_usd > 0 group by scope',
        first_day, partition_name);
    execute format('alter table usage_events detach partition %I', partition_name);
    return partition_name;
end
$$;
comment on function archive_usage_month(date) is
    'Checks a past month of usage_events against its sums, records them and detaches its partition, whose name it returns. All or nothing; for the owner of the tables.';

create table spool_announcements (
    instance text collate "C" constraint spool_announcements_pkey primary key,
    events bigint not null,
    bytes bigint not null,
    oldest timestamptz,
    announced_at timestamptz not null,
    constraint spool_announcements_instance_length check (octet_length(instance) between 1 and 256),
    constraint spool_announcements_not_negative check (events >= 0 and bytes >= 0)
);

comment on table archived_months is 'Months whose events were detached from usage_events, with the sums that they had then.';
comment on column archived_months.month is 'First day of the month, UTC.';
comment on column archived_months.events is 'How many events it had.';
comment on column archived_months.unpriced_events is 'How many of them had no cost.';
comment on column archived_months.cost_usd is 'Exact sum of their costs in USD.';
comment on column archived_months.archived_at is 'When it was archived, by the server''s clock.';

comment on table archived_scope_spend is 'What the events of archived months charge to each scope.';
comment on column archived_scope_spend.month is 'The archived month.';
comment on column archived_scope_spend.scope is 'The scope, as usage_events.scopes writes it.';
comment on column archived_scope_spend.events is 'How many events with a cost above zero charge it.';
comment on column archived_scope_spend.spend_usd is 'Exact sum of what they charge to it, in USD.';

comment on table spool_announcements is
    'What gateways say that they hold on their disks: bills that neither the queue nor this ledger knows.';
comment on column spool_announcements.instance is 'The gateway: its host and the path of its spool.';
comment on column spool_announcements.events is 'How many bills its spool holds, conflicts included; 0 for an empty one.';
comment on column spool_announcements.bytes is 'Their bytes.';
comment on column spool_announcements.oldest is 'When the oldest that is to be replayed was made ready. Null: there is none.';
comment on column spool_announcements.announced_at is 'When the gateway said so, by the server''s clock.';
