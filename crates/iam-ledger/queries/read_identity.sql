-- One identity as it is stored, without its secret's HMAC.
-- $1 kind; $2 id.
select organization_id::text, team_id::text, project_id::text, user_id::text, name as "name!",
       rpm_limit::bigint, tpm_limit::bigint, budget_usd::text, budget_period::text as "budget_period!",
       budget_time_zone::text as "budget_time_zone!", blocked as "blocked!", created_at as "created_at!"
from (
    select 'organization' as kind, id, null::identifier as organization_id, null::identifier as team_id,
           null::identifier as project_id, null::identifier as user_id, name,
           rpm_limit, tpm_limit, budget_usd, budget_period, budget_time_zone, blocked, created_at
    from organizations
    union all
    select 'team', id, organization_id, null, null, null, name,
           rpm_limit, tpm_limit, budget_usd, budget_period, budget_time_zone, blocked, created_at
    from teams
    union all
    select 'project', id, organization_id, team_id, null, null, name,
           rpm_limit, tpm_limit, budget_usd, budget_period, budget_time_zone, blocked, created_at
    from projects
    union all
    select 'user', id, organization_id, team_id, null, null, name,
           rpm_limit, tpm_limit, budget_usd, budget_period, budget_time_zone, blocked, created_at
    from users
    union all
    select 'key', id, organization_id, team_id, project_id, user_id, name,
           rpm_limit, tpm_limit, budget_usd, budget_period, budget_time_zone, blocked, created_at
    from api_keys
) as identity
where kind = $1 and id = $2::text
