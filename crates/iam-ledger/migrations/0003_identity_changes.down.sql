-- Takes blocking, previous secrets and change notifications away again; what is blocked is so no more.
drop function authenticate_key(bytea, timestamptz);
do $$
declare
    subject text;
begin
    foreach subject in array array['organizations', 'teams', 'projects', 'users', 'api_keys'] loop
        execute format('drop trigger config_inserted on %I', subject);
        execute format('drop trigger config_updated_from on %I', subject);
        execute format('drop trigger config_updated_to on %I', subject);
        execute format('drop trigger config_deleted on %I', subject);
    end loop;
end
$$;
drop function config_changed();
drop table config_versions;

alter domain usd drop constraint usd_is_a_number;

-- A view cannot lose a column by being replaced.
drop view scopes;
alter table api_keys
    drop column secret_hmac_previous,
    drop column previous_valid_until,
    drop column blocked;
alter table users drop column blocked;
alter table projects drop column blocked;
alter table teams drop column blocked;
alter table organizations drop column blocked;

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
comment on view scopes is 'Every limited and billed subject with its parent, limits and budget: the one place to read them.';
comment on column scopes.id is 'Stable id, never reused; for a key it has nothing to do with its secret.';
comment on column scopes.organization_id is 'The organization that it belongs to; kept true by composite foreign keys.';
comment on column scopes.rpm_limit is 'Requests per minute. Null: shared. 0: blocked.';
comment on column scopes.tpm_limit is 'Tokens per minute. Null: shared. 0: blocked.';
comment on column scopes.budget_usd is 'What may be spent in one budget period, in USD. Null: no budget.';
comment on column scopes.budget_period is 'How often spend starts again at zero.';
comment on column scopes.budget_time_zone is 'The time zone whose midnight begins a budget period.';
comment on column scopes.kind is 'organization, team, project, user or key.';
comment on column scopes.parent_kind is 'The kind of the scope directly above. Null for a billing root.';
comment on column scopes.parent_id is 'The id of the scope directly above. Null for a billing root.';
