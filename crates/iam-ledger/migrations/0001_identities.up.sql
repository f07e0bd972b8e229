-- Who may spend, what each may use in a minute, and what each may spend in a period.

-- Every rule that several tables share is a domain, so that it is written once.
-- Identifiers use the "C" collation: compared and sorted byte for byte, whatever the database's locale is or becomes.
create domain identifier as text collate "C"
    constraint identifier_length check (octet_length(value) between 1 and 128)
    constraint identifier_without_control_characters check (value !~ '[\u0001-\u001f\u007f-\u009f]');
comment on domain identifier is 'A stable id: 1 to 128 bytes of UTF-8, no control character, compared byte for byte.';

create domain rate_limit as bigint
    constraint rate_limit_range check (value between 0 and 2147483647);
comment on domain rate_limit is 'A limit per minute. Null: shared, no limit of its own. 0: blocked.';

create domain usd as numeric(30, 12)
    constraint usd_not_negative check (value >= 0);
comment on domain usd is 'An exact amount in US dollars, down to 10^-12.';

create domain budget_period as text
    constraint budget_period_known check (value in ('none', 'daily', 'weekly', 'monthly'));
comment on domain budget_period is 'How often spend starts again at zero: none (never), daily, weekly (from Monday) or monthly.';

-- Only names of places: PostgreSQL reads UTC+9 or Foo/Bar+9 by the rule of POSIX, as nine hours west, and takes CET as an
-- abbreviation without summer time. The other check converts an instant, which PostgreSQL refuses for a zone it does not know: without
-- it a misspelt zone would be found only when a batch that charges the scope is committed, and stop it.
create domain time_zone as text
    constraint time_zone_named check (value = 'UTC' or value ~ '^(?!posix/|right/)[A-Za-z_]+(/[A-Za-z_-]+)+$')
    constraint time_zone_known check (timezone(value, timestamptz '1970-01-01 00:00:00+00') is not null);
comment on domain time_zone is 'UTC, or an IANA name of the form Area/Location, such as Europe/Berlin, that PostgreSQL knows.';

create table organizations (
    id identifier constraint organizations_pkey primary key,
    name text not null,
    rpm_limit rate_limit,
    tpm_limit rate_limit,
    budget_usd usd,
    budget_period budget_period not null default 'none',
    budget_time_zone time_zone not null default 'UTC',
    created_at timestamptz not null default now()
);

create table teams (
    id identifier constraint teams_pkey primary key,
    organization_id identifier not null
        constraint teams_organization_fkey references organizations (id),
    name text not null,
    rpm_limit rate_limit,
    tpm_limit rate_limit,
    budget_usd usd,
    budget_period budget_period not null default 'none',
    budget_time_zone time_zone not null default 'UTC',
    created_at timestamptz not null default now(),
    -- What the composite foreign keys below refer to.
    constraint teams_id_organization_key unique (id, organization_id)
);
create index teams_organization_idx on teams (organization_id);

create table projects (
    id identifier constraint projects_pkey primary key,
    organization_id identifier not null
        constraint projects_organization_fkey references organizations (id),
    team_id identifier,
    name text not null,
    rpm_limit rate_limit,
    tpm_limit rate_limit,
    budget_usd usd,
    budget_period budget_period not null default 'none',
    budget_time_zone time_zone not null default 'UTC',
    created_at timestamptz not null default now(),
    constraint projects_id_organization_key unique (id, organization_id),
    constraint projects_team_fkey foreign key (team_id, organization_id) references teams (id, organization_id)
);
create index projects_organization_idx on projects (organization_id);
create index projects_team_idx on projects (team_id);

create table users (
    id identifier constraint users_pkey primary key,
    organization_id identifier
        constraint users_organization_fkey references organizations (id),
    -- A foreign key with a null in it is not checked, so a user without an organization has '' here.
    organization_key text collate "C" not null generated always as (coalesce(organization_id, '')) stored,
    team_id identifier,
    name text not null,
    rpm_limit rate_limit,
    tpm_limit rate_limit,
    budget_usd usd,
    budget_period budget_period not null default 'none',
    budget_time_zone time_zone not null default 'UTC',
    created_at timestamptz not null default now(),
    constraint users_id_organization_key unique (id, organization_key),
    constraint users_team_fkey foreign key (team_id, organization_id) references teams (id, organization_id),
    constraint users_team_needs_organization check (team_id is null or organization_id is not null)
);
create index users_organization_idx on users (organization_id);
create index users_team_idx on users (team_id);

create table api_keys (
    id identifier constraint api_keys_pkey primary key,
    organization_id identifier
        constraint api_keys_organization_fkey references organizations (id),
    organization_key text collate "C" not null generated always as (coalesce(organization_id, '')) stored,
    team_id identifier,
    project_id identifier,
    user_id identifier,
    name text not null,
    secret_hmac bytea,
    rpm_limit rate_limit,
    tpm_limit rate_limit,
    budget_usd usd,
    budget_period budget_period not null default 'none',
    budget_time_zone time_zone not null default 'UTC',
    created_at timestamptz not null default now(),
    constraint api_keys_secret_hmac_key unique (secret_hmac),
    constraint api_keys_secret_hmac_length check (octet_length(secret_hmac) = 32),
    constraint api_keys_team_fkey foreign key (team_id, organization_id) references teams (id, organization_id),
    constraint api_keys_project_fkey foreign key (project_id, organization_id) references projects (id, organization_id),
    constraint api_keys_user_fkey foreign key (user_id, organization_key) references users (id, organization_key),
    constraint api_keys_owned check (organization_id is not null or user_id is not null),
    constraint api_keys_team_needs_organization check (team_id is null or organization_id is not null),
    constraint api_keys_project_needs_organization check (project_id is null or organization_id is not null)
);
create index api_keys_organization_idx on api_keys (organization_id);
create index api_keys_team_idx on api_keys (team_id);
create index api_keys_project_idx on api_keys (project_id);
create index api_keys_user_idx on api_keys (user_id);

-- Every branch has the same types and collations: only then does the planner push a condition down into each table's index.
create view scopes as
select 'organization'::text as kind, id::text as id, id::text as organization_id,
       null::text as parent_kind, null::text collate "C" as parent_id,
       rpm_limit::bigint as rpm_limit, tpm_limit::bigint as tpm_limit, budget_usd::numeric(30, 12) as budget_usd,
       budget_period::text as budget_period, budget_time_zone::text as budget_time_zone
from organizations
union all
select 'team'::text, id::text, organization_id::text,
       'organization'::text, organization_id::text,
       rpm_limit::bigint, tpm_limit::bigint, budget_usd::numeric(30, 12), budget_period::text, budget_time_zone::text
from teams
union all
select 'project'::text, id::text, organization_id::text,
       case when team_id is not null then 'team'::text else 'organization'::text end, coalesce(team_id, organization_id)::text,
       rpm_limit::bigint, tpm_limit::bigint, budget_usd::numeric(30, 12), budget_period::text, budget_time_zone::text
from projects
union all
select 'user'::text, id::text, organization_id::text,
       case when team_id is not null then 'team'::text when organization_id is not null then 'organization'::text end,
       coalesce(team_id, organization_id)::text,
       rpm_limit::bigint, tpm_limit::bigint, budget_usd::numeric(30, 12), budget_period::text, budget_time_zone::text
from users
union all
select 'key'::text, id::text, organization_id::text,
       case when user_id is not null then 'user'::text when project_id is not null then 'project'::text
            when team_id is not null then 'team'::text else 'organization'::text end,
       coalesce(user_id, project_id, team_id, organization_id)::text,
       rpm_limit::bigint, tpm_limit::bigint, budget_usd::numeric(30, 12), budget_period::text, budget_time_zone::text
from api_keys;

comment on table organizations is 'Billing roots. An organization is also the root of its rate tree.';
comment on table teams is 'Teams, each below its organization.';
comment on table projects is 'Projects, each below a team or directly below an organization.';
comment on table users is 'Users, each below a team or an organization, or a billing root of its own.';
comment on table api_keys is 'API keys, each below its user, else its project, else its team, else its organization.';
comment on view scopes is 'Every limited and billed subject with its parent, limits and budget: the one place to read them.';

-- Columns that mean the same everywhere get their comment in a loop, so that the texts cannot drift apart.
do $$
declare
    subject text;
begin
    foreach subject in array array['organizations', 'teams', 'projects', 'users', 'api_keys', 'scopes'] loop
        execute format('comment on column %I.id is %L', subject, 'Stable id, never reused; for a key it has nothing to do with its secret.');
        execute format('comment on column %I.rpm_limit is %L', subject, 'Requests per minute. Null: shared. 0: blocked.');
        execute format('comment on column %I.tpm_limit is %L', subject, 'Tokens per minute. Null: shared. 0: blocked.');
        execute format('comment on column %I.budget_usd is %L', subject, 'What may be spent in one budget period, in USD. Null: no budget.');
        execute format('comment on column %I.budget_period is %L', subject, 'How often spend starts again at zero.');
        execute format('comment on column %I.budget_time_zone is %L', subject, 'The time zone whose midnight begins a budget period.');
        if subject <> 'scopes' then
            execute format('comment on column %I.name is %L', subject, 'What people call it. May change.');
            execute format('comment on column %I.created_at is %L', subject, 'When the row was made.');
        end if;
        if subject <> 'organizations' then
            execute format('comment on column %I.organization_id is %L', subject, 'The organization that it belongs to; kept true by composite foreign keys.');
        end if;
        if subject in ('users', 'api_keys') then
            execute format('comment on column %I.organization_key is %L', subject, 'organization_id, or the empty text for none: a foreign key with a null in it would not be checked.');
        end if;
        if subject in ('projects', 'users', 'api_keys') then
            execute format('comment on column %I.team_id is %L', subject, 'The team that it belongs to, of the same organization.');
        end if;
    end loop;
end
$$;
comment on column api_keys.project_id is 'The project that the key is for, of the same organization.';
comment on column api_keys.user_id is 'The user who owns the key, of the same organization or, like the key, of none.';
comment on column api_keys.secret_hmac is 'HMAC-SHA-256 of the secret under the server''s pepper. The secret itself is stored nowhere.';
comment on column scopes.kind is 'organization, team, project, user or key.';
comment on column scopes.parent_kind is 'The kind of the scope directly above. Null for a billing root.';
comment on column scopes.parent_id is 'The id of the scope directly above. Null for a billing root.';
