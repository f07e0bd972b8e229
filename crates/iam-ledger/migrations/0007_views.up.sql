-- What people ask the ledger, as views in USD: for dashboards, for SQL at a prompt, and for the reads of this library.

create view usage_by_day as
select day, organization_id,
       sum(events)::bigint as events, sum(unpriced_events)::bigint as unpriced_events,
       sum(prompt_tokens)::bigint as prompt_tokens, sum(completion_tokens)::bigint as completion_tokens,
       sum(cached_tokens)::bigint as cached_tokens, sum(cost_usd)::numeric(30, 12) as cost_usd
from usage_daily
group by day, organization_id;

create view usage_by_model as
select day, organization_id, provider, model,
       sum(events)::bigint as events, sum(unpriced_events)::bigint as unpriced_events,
       sum(prompt_tokens)::bigint as prompt_tokens, sum(completion_tokens)::bigint as completion_tokens,
       sum(cached_tokens)::bigint as cached_tokens, sum(cost_usd)::numeric(30, 12) as cost_usd
from usage_daily
group by day, organization_id, provider, model;

create view usage_by_scope as
select daily.day, daily.organization_id, owner.kind, owner.id,
       sum(daily.events)::bigint as events, sum(daily.unpriced_events)::bigint as unpriced_events,
       sum(daily.prompt_tokens)::bigint as prompt_tokens, sum(daily.completion_tokens)::bigint as completion_tokens,
       sum(daily.cached_tokens)::bigint as cached_tokens, sum(daily.cost_usd)::numeric(30, 12) as cost_usd
from usage_daily as daily
cross join lateral (
    values ('organization'::text, daily.organization_id), ('team', daily.team_id), ('project', daily.project_id),
           ('user', daily.user_id), ('key', daily.key_id)
) as owner (kind, id)
where owner.id <> ''
group by daily.day, daily.organization_id, owner.kind, owner.id;

create view spend_by_period as
select spend.kind, spend.id, scopes.organization_id, spend.period_start, spend.spend_usd, spend.paid_events,
       scopes.budget_usd, scopes.budget_period, scopes.budget_time_zone
from scope_spend as spend
left join scopes on scopes.kind = spend.kind and scopes.id = spend.id;

create view open_holds as
select request_id, kind, id, organization_id, amount_usd::numeric(30, 12) as amount_usd, held_at, expires_at
from holds
where state = 'held';

create view hold_overruns as
select request_id, kind, id, organization_id, amount_usd::numeric(30, 12) as amount_usd, cost_usd::numeric(30, 12) as cost_usd,
       (cost_usd - amount_usd)::numeric(30, 12) as overrun_usd, settled_at, covered
from holds
where cost_usd > amount_usd;

comment on view usage_by_day is 'Usage by UTC day and organization.';
comment on view usage_by_model is 'Usage by UTC day, organization, provider and model.';
comment on view usage_by_scope is
    'Usage by UTC day and owner: everything that was reported of an organization, team, project, user or key, charged to it or not.';
comment on view spend_by_period is 'What each scope was charged, by budget period, beside its budget as it is now.';
comment on view open_holds is 'Holds that were neither released nor settled nor swept; one past its expires_at reserves nothing.';
comment on view hold_overruns is 'Requests that cost more than was held for them.';

do $$
declare
    usage text;
begin
    foreach usage in array array['usage_by_day', 'usage_by_model', 'usage_by_scope'] loop
        execute format('comment on column %I.day is %L', usage, 'UTC day of usage_events.started_at.');
        execute format('comment on column %I.organization_id is %L', usage, 'Organization; empty for none.');
        execute format('comment on column %I.events is %L', usage, 'Number of events, free and unpriced ones included.');
        execute format('comment on column %I.unpriced_events is %L', usage, 'How many of them have no cost.');
        execute format('comment on column %I.prompt_tokens is %L', usage, 'Sum of input tokens.');
        execute format('comment on column %I.completion_tokens is %L', usage, 'Sum of output tokens.');
        execute format('comment on column %I.cached_tokens is %L', usage, 'Sum of cached input tokens.');
        execute format('comment on column %I.cost_usd is %L', usage, 'Exact sum of the costs in USD.');
    end loop;
end
$$;
comment on column usage_by_model.provider is 'Provider; empty for none.';
comment on column usage_by_model.model is 'Model.';
comment on column usage_by_scope.kind is 'organization, team, project, user or key.';
comment on column usage_by_scope.id is 'Id within the kind.';
comment on column spend_by_period.kind is 'Kind of the charged scope.';
comment on column spend_by_period.id is 'Id of the charged scope.';
comment on column spend_by_period.organization_id is 'Its organization now. Null: none, or a scope that no table knows.';
comment on column spend_by_period.period_start is 'First instant of the period; the Unix epoch for a scope without one.';
comment on column spend_by_period.spend_usd is 'Exact sum of what it was charged, in USD.';
comment on column spend_by_period.paid_events is 'How many charges that is the sum of.';
comment on column spend_by_period.budget_usd is 'Its budget now, in USD. Null: none.';
comment on column spend_by_period.budget_period is 'Its budget period now. Null: a scope that no table knows.';
comment on column spend_by_period.budget_time_zone is 'Its time zone now. Null: a scope that no table knows.';
comment on column open_holds.request_id is 'The request.';
comment on column open_holds.kind is 'Kind of the subject.';
comment on column open_holds.id is 'Id of the subject.';
comment on column open_holds.organization_id is 'The subject''s organization. Null: none.';
comment on column open_holds.amount_usd is 'What is reserved at every level, in USD.';
comment on column open_holds.held_at is 'When it was made.';
comment on column open_holds.expires_at is 'From this instant on it reserves nothing.';
comment on column hold_overruns.request_id is 'The request.';
comment on column hold_overruns.kind is 'Kind of the subject.';
comment on column hold_overruns.id is 'Id of the subject.';
comment on column hold_overruns.organization_id is 'The subject''s organization. Null: none.';
comment on column hold_overruns.amount_usd is 'What was held, in USD.';
comment on column hold_overruns.cost_usd is 'What the request cost, in USD.';
comment on column hold_overruns.overrun_usd is 'By how much it cost more, in USD.';
comment on column hold_overruns.settled_at is 'Committer''s time at the commit of the event.';
comment on column hold_overruns.covered is 'Whether the hold still reserved money when the event was committed; if not, it had expired or been released.';
