-- Blocking an identity, replacing a key's secret, authenticating without reading secrets, and telling gateways what changed.

-- NaN compares as greater than everything, zero included. Infinity does not fit a scale.
alter domain usd add constraint usd_is_a_number check (value <> 'NaN');

alter table organizations add column blocked boolean not null default false;
alter table teams add column blocked boolean not null default false;
alter table projects add column blocked boolean not null default false;
alter table users add column blocked boolean not null default false;
alter table api_keys
    add column blocked boolean not null default false,
    add column secret_hmac_previous bytea,
    add column previous_valid_until timestamptz,
    add constraint api_keys_secret_hmac_previous_key unique (secret_hmac_previous),
    add constraint api_keys_secret_hmac_previous_length check (octet_length(secret_hmac_previous) = 32),
    add constraint api_keys_previous_secret_ends
        check ((secret_hmac_previous is null) = (previous_valid_until is null));

-- The same view with one column more.
create or replace view scopes as
select 'organization'::text as kind, id::text as id, id::text as organization_id,
       null::text as parent_kind, null::text collate "C" as parent_id,
       rpm_limit::bigint as rpm_limit, tpm_limit::bigint as tpm_limit, budget_usd::numeric(30, 12) as budget_usd,
       budget_period::text as budget_period, budget_time_zone::text as budget_time_zone, blocked
from organizations
union all
select 'team'::text, id::text, organization_id::text,
       'organization'::text, organization_id::text,
       rpm_limit::bigint, tpm_limit::bigint, budget_usd::numeric(30, 12), budget_period::text, budget_time_zone::text,
       blocked
from teams
union all
select 'project'::text, id::text, organization_id::text,
       case when team_id is not null then 'team'::text else 'organization'::text end, coalesce(team_id, organization_id)::text,
       rpm_limit::bigint, tpm_limit::bigint, budget_usd::numeric(30, 12), budget_period::text, budget_time_zone::text,
       blocked
from projects
union all
select 'user'::text, id::text, organization_id::text,
       case when team_id is not null then 'team'::text when organization_id is not null then 'organization'::text end,
       coalesce(team_id, organization_id)::text,
       rpm_limit::bigint, tpm_limit::bigint, budget_usd::numeric(30, 12), budget_period::text, budget_time_zone::text,
       blocked
from users
union all
select 'key'::text, id::text, organization_id::text,
       case when user_id is not null then 'user'::text when project_id is not null then 'project'::text
            when team_id is not null then 'team'::text else 'organization'::text end,
       coalesce(user_id, project_id, team_id, organization_id)::text,
       rpm_limit::bigint, tpm_limit::bigint, budget_usd::numeric(30, 12), budget_period::text, budget_time_zone::text,
       blocked
from api_keys;

-- No foreign key: a root that is deleted keeps its number, so that a gateway that still holds its tree sees it move.
create table config_versions (
    root_kind text collate "C" not null,
    root_id text collate "C" not null,
    version bigint not null,
    constraint config_versions_pkey primary key (root_kind, root_id),
    constraint config_versions_root_kind_known check (root_kind in ('organization', 'user'))
) with (fillfactor = 80);

-- Runs once a statement, over its transition table. It is dynamic because the five tables name their root differently. The
-- order keeps two statements that change several roots from deadlocking. PostgreSQL sends equal notifications of one
-- transaction once, and none if it rolls back.
create function config_changed() returns trigger
    language plpgsql
    set search_path from current
as $$
declare
    root_kind constant text := case when tg_table_name in ('users', 'api_keys')
        then 'case when organization_id is null then ''user'' else ''organization'' end' else '''organization''' end;
    root_id constant text := case tg_table_name
        when 'organizations' then 'id'
        when 'users' then 'coalesce(organization_id, id)'
        when 'api_keys' then 'coalesce(organization_id, user_id)'
        else 'organization_id' end;
    -- What is new was not authenticated before. So many ids fit a notification, which holds less than 8,000 bytes.
    keys constant text := case
        when tg_op = 'INSERT' then '''[]''::json'
        when tg_table_name = 'api_keys' then 'case when count(*) <= 20 then json_agg(id order by id) end'
        else 'null::json' end;
begin
    execute format(
        'with roots as ('
        '    select (%s)::text collate "C" as kind, (%s)::text collate "C" as id, %s as keys from changed group by 1, 2'
        '), raised as ('
        '    insert into config_versions as stored (root_kind, root_id, version)'
        '    select kind, id, 1 from roots order by kind, id'
        '    on conflict on constraint config_versions_pkey do update set version = stored.version + 1'
        ') '
        'select pg_notify(''iam_ledger_config'', json_build_object(''kind'', kind, ''id'', id, ''keys'', keys)::text) from roots',
        root_kind, root_id, keys);
    return null;
end
$$;
comment on function config_changed() is
    'Raises the version of every billing root whose identities a statement changed, and notifies the channel iam_ledger_config.';

-- A trigger has a transition table only if it is for one event. An update has two, so that a row that changed its owner
-- counts for both; where it did not, the second notification equals the first.
do $$
declare
    subject text;
begin
    foreach subject in array array['organizations', 'teams', 'projects', 'users', 'api_keys'] loop
        execute format('create trigger config_inserted after insert on %I referencing new table as changed '
            'for each statement execute function config_changed()', subject);
        execute format('create trigger config_updated_from after update on %I referencing old table as changed '
            'for each statement execute function config_changed()', subject);
        execute format('create trigger config_updated_to after update on %I referencing new table as changed '
            'for each statement execute function config_changed()', subject);
        execute format('create trigger config_deleted after delete on %I referencing old table as changed '
            'for each statement execute function config_changed()', subject);
        execute format('comment on column %I.blocked is %L', subject,
            'Whether it is refused whatever its limits and budget; so is everything below.');
    end loop;
end
$$;

-- Gateways authenticate with the rights of the owner and read no HMAC that they do not hold already. The body is parsed here
-- and now, so that no search path of a caller can put other tables in the place of these.
create function authenticate_key(given_hmac bytea, given_instant timestamptz)
    returns table (
        kind text, id text, rpm_limit bigint, tpm_limit bigint, blocked boolean,
        secret_hmac bytea, valid_until timestamptz, version bigint
    )
    language sql stable security definer rows 5
    set search_path = pg_catalog, pg_temp
begin atomic
    select scope.kind, scope.id, scope.rpm_limit, scope.tpm_limit, scope.blocked,
           found.secret_hmac, found.valid_until, coalesce(config.version, 0)
    from (
        select id, organization_id, team_id, project_id, user_id, rpm_limit, tpm_limit, blocked,
               secret_hmac, null::timestamptz as valid_until
        from api_keys
        where secret_hmac = given_hmac
        union all
        select id, organization_id, team_id, project_id, user_id, rpm_limit, tpm_limit, blocked,
               secret_hmac_previous, previous_valid_until
        from api_keys
        where secret_hmac_previous = given_hmac and previous_valid_until > given_instant
    ) as found
    left join users on users.id = found.user_id
    left join projects on projects.id = found.project_id
    left join teams on teams.id = case when found.user_id is not null then users.team_id
                                       when found.project_id is not null then projects.team_id
                                       else found.team_id end
    left join organizations on organizations.id = found.organization_id
    left join config_versions as config
        on config.root_kind = case when found.organization_id is null then 'user' else 'organization' end
       and config.root_id = coalesce(found.organization_id, found.user_id)
    cross join lateral (values
        ('key', found.id::text, found.rpm_limit::bigint, found.tpm_limit::bigint, found.blocked),
        ('user', users.id::text, users.rpm_limit::bigint, users.tpm_limit::bigint, users.blocked),
        ('project', projects.id::text, projects.rpm_limit::bigint, projects.tpm_limit::bigint, projects.blocked),
        ('team', teams.id::text, teams.rpm_limit::bigint, teams.tpm_limit::bigint, teams.blocked),
        ('organization', organizations.id::text, organizations.rpm_limit::bigint, organizations.tpm_limit::bigint,
            organizations.blocked)
    ) as scope (kind, id, rpm_limit, tpm_limit, blocked)
    where scope.id is not null;
end;
revoke execute on function authenticate_key(bytea, timestamptz) from public;
comment on function authenticate_key(bytea, timestamptz) is
    'The key whose secret has this HMAC, and every scope above it, one row each; no row when there is none at that instant.';

comment on column scopes.blocked is 'Whether the scope itself is blocked; what is above it is not looked at.';
comment on column api_keys.secret_hmac_previous is
    'HMAC of the secret before the last rotation, while it is still accepted. Null: none.';
comment on column api_keys.previous_valid_until is 'First instant at which the previous secret is refused. Null: there is none.';
comment on table config_versions is
    'How often the identities of a billing root changed: what gateways compare to know that what they hold is current.';
comment on column config_versions.root_kind is 'organization, or user for a user without one.';
comment on column config_versions.root_id is 'Id of the billing root.';
comment on column config_versions.version is
    'Differs after every committed change. Absent: never changed since versions are counted, read as 0.';
