-- Money in flight: what a request may cost is reserved before it runs, at every level that will be charged for it; and what
-- each level of a subject's path has left, read in one place by whoever asks and whoever reserves.

create domain hold_state as text
    constraint hold_state_known check (value in ('held', 'released', 'settled', 'expired'));
comment on domain hold_state is
    'held: reserves money until it expires; released: given back unused; settled: its event was committed; expired: swept after its time.';

-- One row a request, kept for good: it is what makes a hold idempotent, and what an overrun is read from.
create table holds (
    request_id text collate "C" constraint holds_pkey primary key,
    kind text collate "C" not null,
    id text collate "C" not null,
    organization_id text collate "C",
    amount_usd usd not null,
    state hold_state not null,
    held_at timestamptz not null,
    expires_at timestamptz not null,
    ended_at timestamptz,
    settled_at timestamptz,
    cost_usd usd,
    covered boolean,
    constraint holds_request_id_length check (octet_length(request_id) between 1 and 128),
    constraint holds_amount_positive check (amount_usd > 0),
    constraint holds_expires_later check (expires_at > held_at),
    constraint holds_ended_unless_held check ((state = 'held') = (ended_at is null)),
    constraint holds_settled_by_an_event check ((state = 'settled') = (settled_at is not null)),
    constraint holds_cost_when_settled check (cost_usd is null or settled_at is not null),
    constraint holds_covered_when_settled check ((covered is null) = (settled_at is null))
) with (fillfactor = 80);
create index holds_due_idx on holds (expires_at) where state = 'held';
create index holds_overrun_idx on holds (settled_at) where cost_usd > amount_usd;

-- Only what is open: rows go when their hold ends, so that a sum over them costs what is in flight.
create table hold_reservations (
    request_id text collate "C" not null
        constraint hold_reservations_hold_fkey references holds (request_id),
    kind text collate "C" not null,
    id text collate "C" not null,
    amount_usd usd not null,
    expires_at timestamptz not null,
    constraint hold_reservations_pkey primary key (request_id, kind, id)
);
create index hold_reservations_scope_idx on hold_reservations (kind, id, expires_at) include (amount_usd);

-- The few scopes that have a budget, among the many that have none.
create index teams_budgeted_idx on teams (organization_id) where budget_usd is not null;
create index projects_budgeted_idx on projects (organization_id) where budget_usd is not null;
create index users_budgeted_idx on users (organization_id) where budget_usd is not null;
create index api_keys_budgeted_idx on api_keys (organization_id) where budget_usd is not null;
create index api_keys_budgeted_of_user_idx on api_keys (user_id) where budget_usd is not null and organization_id is null;

-- One place says who is blocked. Inlined by the planner, so each branch of the view is asked by its primary key.
create function scope_blocked(scope_kind text, scope_id text) returns boolean
    language sql stable parallel safe
    return coalesce((select scopes.blocked from scopes where scopes.kind = scope_kind and scopes.id = scope_id), false);
comment on function scope_blocked(text, text) is 'Whether a scope is blocked, so that nothing may be reserved for it or for what is below it.';

-- Each scope with a budget and the nearest scope above it that has one too: there its unused budget is reserved. Chains are those
-- of the view scopes: a key belongs to its user, else its project, else its team, whatever else it names.
create view budget_allocations as
select 'team'::text as kind, t.id::text as id, t.organization_id::text as organization_id, null::text collate "C" as root_user_id,
       t.budget_usd::numeric(30, 12) as budget_usd, t.budget_period::text as budget_period,
       t.budget_time_zone::text as budget_time_zone,
       case when o.budget_usd is not null then 'organization'::text end as ancestor_kind,
       case when o.budget_usd is not null then o.id::text end as ancestor_id
from teams t
join organizations o on o.id = t.organization_id
where t.budget_usd is not null
union all
select 'project'::text, p.id::text, p.organization_id::text, null::text collate "C",
       p.budget_usd::numeric(30, 12), p.budget_period::text, p.budget_time_zone::text,
       case when t.budget_usd is not null then 'team'::text when o.budget_usd is not null then 'organization'::text end,
       case when t.budget_usd is not null then t.id::text when o.budget_usd is not null then o.id::text end
from projects p
join organizations o on o.id = p.organization_id
left join teams t on t.id = p.team_id
where p.budget_usd is not null
union all
select 'user'::text, u.id::text, u.organization_id::text, null::text collate "C",
       u.budget_usd::numeric(30, 12), u.budget_period::text, u.budget_time_zone::text,
       case when t.budget_usd is not null then 'team'::text when o.budget_usd is not null then 'organization'::text end,
       case when t.budget_usd is not null then t.id::text when o.budget_usd is not null then o.id::text end
from users u
join organizations o on o.id = u.organization_id
left join teams t on t.id = u.team_id
where u.budget_usd is not null
union all
select 'key'::text, k.id::text, k.organization_id::text, null::text collate "C",
       k.budget_usd::numeric(30, 12), k.budget_period::text, k.budget_time_zone::text,
       case when u.budget_usd is not null then 'user'::text when p.budget_usd is not null then 'project'::text
            when t.budget_usd is not null then 'team'::text when o.budget_usd is not null then 'organization'::text end,
       case when u.budget_usd is not null then u.id::text when p.budget_usd is not null then p.id::text
            when t.budget_usd is not null then t.id::text when o.budget_usd is not null then o.id::text end
from api_keys k
join organizations o on o.id = k.organization_id
left join users u on u.id = k.user_id
left join projects p on p.id = k.project_id and k.user_id is null
left join teams t on t.id = case when k.user_id is not null then u.team_id when k.project_id is not null then p.team_id
                                 else k.team_id end
where k.budget_usd is not null
union all
select 'key'::text, k.id::text, null::text collate "C", k.user_id::text,
       k.budget_usd::numeric(30, 12), k.budget_period::text, k.budget_time_zone::text,
       case when u.budget_usd is not null then 'user'::text end, case when u.budget_usd is not null then u.id::text end
from api_keys k
join users u on u.id = k.user_id
where k.budget_usd is not null and k.organization_id is null;

-- The subject and what is above it, leaf first. Functions of one plain query each are inlined, so that the plan of whoever calls
-- them shows what they do.
create function scope_path(subject_kind text, subject_id text)
returns table (
    level integer, kind text, id text, organization_id text, parent_kind text, budget_usd numeric, budget_period text,
    budget_time_zone text
)
language sql stable parallel safe
as $$
    with recursive path as (
        select 0 as level, scopes.* from scopes where scopes.kind = subject_kind and scopes.id = subject_id
        union all
        select path.level + 1, scopes.*
        from path
        join scopes on scopes.kind = path.parent_kind and scopes.id = path.parent_id
    )
    select path.level, path.kind, path.id, path.organization_id, path.parent_kind, path.budget_usd, path.budget_period,
           path.budget_time_zone
    from path
$$;
comment on function scope_path(text, text) is 'A scope and everything above it, one row a level from 0; no row for a scope that no table knows.';

create function budget_levels(subject_kind text, subject_id text, at timestamptz)
returns table (
    level integer, kind text, id text, organization_id text, blocked boolean, budget_usd numeric,
    period_start timestamptz, period_end timestamptz, settled_usd numeric, held_usd numeric, reserved_usd numeric,
    sibling_kinds text[], sibling_ids text[], sibling_left_usd text[], sibling_held_usd text[]
)
language sql stable parallel safe
as $$
    with path as materialized (
        select * from scope_path(subject_kind, subject_id)
    ), sibling as (
        select above.level, a.kind, a.id, a.budget_usd - settled.usd as left_usd, coalesce(held.usd, 0) as held_usd
        from path above
        join budget_allocations a on a.ancestor_kind = above.kind and a.ancestor_id = above.id
        cross join lateral settled_spend(a.kind, a.id, period_start(a.budget_period, at, a.budget_time_zone),
                                         period_end(a.budget_period, at, a.budget_time_zone)) as settled
        cross join lateral (
            select sum(h.amount_usd) as usd
            from hold_reservations h
            where h.kind = a.kind and h.id = a.id and h.expires_at > at
        ) as held
        -- The root comes from subqueries, so that an index finds its allocations before anything is joined.
        where (a.organization_id = (select p.organization_id from path p where p.parent_kind is null)
               or a.root_user_id = (select p.id from path p where p.parent_kind is null and p.organization_id is null))
          and not exists (select from path p where p.kind = a.kind and p.id = a.id)
    ), reserved as (
        select sibling.level, sum(sibling.left_usd - sibling.held_usd) as usd,
               -- One more than the caller reads hot money for, which tells it that there are more.
               (array_agg(sibling.kind))[1:65] as kinds, (array_agg(sibling.id))[1:65] as ids,
               (array_agg(sibling.left_usd::text))[1:65] as left_usd, (array_agg(sibling.held_usd::text))[1:65] as held_usd
        from sibling
        where sibling.left_usd > sibling.held_usd
        group by sibling.level
    )
    select path.level, path.kind, path.id, path.organization_id, scope_blocked(path.kind, path.id), path.budget_usd,
           period_start(path.budget_period, at, path.budget_time_zone), period_end(path.budget_period, at, path.budget_time_zone),
           settled.usd, coalesce(held.usd, 0), coalesce(reserved.usd, 0),
           coalesce(reserved.kinds, '{}'), coalesce(reserved.ids, '{}'),
           coalesce(reserved.left_usd, '{}'), coalesce(reserved.held_usd, '{}')
    from path
    left join reserved on reserved.level = path.level
    cross join lateral settled_spend(path.kind, path.id, period_start(path.budget_period, at, path.budget_time_zone),
                                     period_end(path.budget_period, at, path.budget_time_zone)) as settled
    cross join lateral (
        select sum(h.amount_usd) as usd
        from hold_reservations h
        where h.kind = path.kind and h.id = path.id and h.expires_at > at
    ) as held
$$;
comment on function budget_levels(text, text, timestamptz) is
    'What each level of a scope''s path has settled in its current period, holds, and reserves for budgets beside the path.';

comment on table holds is 'Money reserved for a request before it ran, and what became of it. Rows stay: a request id is held once.';
comment on column holds.request_id is 'The request''s idempotency key, the same as of its event.';
comment on column holds.kind is 'Kind of the subject: the lowest level of the path.';
comment on column holds.id is 'Id of the subject.';
comment on column holds.organization_id is 'The subject''s organization when the hold was made. Null: none.';
comment on column holds.amount_usd is 'What was reserved at every level, in USD.';
comment on column holds.state is 'held, released, settled or expired. A row that is held past its expires_at reserves nothing any more.';
comment on column holds.held_at is 'When it was made, by its host''s clock.';
comment on column holds.expires_at is 'From this instant on it reserves nothing.';
comment on column holds.ended_at is 'When it ceased to reserve: released, settled, or expired, whichever came first. Null: it is held.';
comment on column holds.settled_at is 'Committer''s time at the commit of the request''s event. Null: no event yet.';
comment on column holds.cost_usd is 'What the request cost in USD. Null: no event yet, or an unpriced one.';
comment on column holds.covered is 'Whether it still reserved money when the event was committed. Null: no event yet.';

comment on table hold_reservations is 'What each open hold reserves at each level of its path; gone when the hold ends.';
comment on column hold_reservations.request_id is 'The hold.';
comment on column hold_reservations.kind is 'Kind of the level.';
comment on column hold_reservations.id is 'Id of the level.';
comment on column hold_reservations.amount_usd is 'The hold''s amount, here so that one index answers the sum.';
comment on column hold_reservations.expires_at is 'The hold''s expires_at, here for the same reason.';

comment on view budget_allocations is 'Scopes that have a budget, each with the nearest scope above it that has one: where its unused budget is reserved.';
comment on column budget_allocations.kind is 'team, project, user or key.';
comment on column budget_allocations.id is 'Id of the scope.';
comment on column budget_allocations.organization_id is 'The organization at the root. Null: a user is.';
comment on column budget_allocations.root_user_id is 'The user at the root. Null: an organization is.';
comment on column budget_allocations.budget_usd is 'The budget in USD.';
comment on column budget_allocations.budget_period is 'How often spend starts again at zero.';
comment on column budget_allocations.budget_time_zone is 'The time zone whose midnight begins a budget period.';
comment on column budget_allocations.ancestor_kind is 'Kind of the nearest scope above with a budget. Null: none has one.';
comment on column budget_allocations.ancestor_id is 'Id of that scope.';
