-- Inserts identities of all kinds, all or none. Foreign keys are checked when the statement ends, so that parents and
-- children may come together; they are what refuses an owner that does not exist or belongs to another organization.
-- One array a column; a budget comes as decimal text, and of a key's secret only its HMAC.
with given as (
    select *
    from unnest(
        $1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
        $8::bigint[], $9::bigint[], $10::text[], $11::text[], $12::text[], $13::bytea[]
    ) as i (
        kind, id, name, organization_id, team_id, project_id, user_id,
        rpm_limit, tpm_limit, budget_usd, budget_period, budget_time_zone, secret_hmac
    )
), organization as (
    insert into organizations (id, name, rpm_limit, tpm_limit, budget_usd, budget_period, budget_time_zone)
    select id, name, rpm_limit, tpm_limit, budget_usd::numeric, budget_period, budget_time_zone
    from given where kind = 'organization'
), team as (
    insert into teams (id, organization_id, name, rpm_limit, tpm_limit, budget_usd, budget_period, budget_time_zone)
    select id, organization_id, name, rpm_limit, tpm_limit, budget_usd::numeric, budget_period, budget_time_zone
    from given where kind = 'team'
), project as (
    insert into projects (
        id, organization_id, team_id, name, rpm_limit, tpm_limit, budget_usd, budget_period, budget_time_zone
    )
    select id, organization_id, team_id, name, rpm_limit, tpm_limit, budget_usd::numeric, budget_period, budget_time_zone
    from given where kind = 'project'
), person as (
    insert into users (
        id, organization_id, team_id, name, rpm_limit, tpm_limit, budget_usd, budget_period, budget_time_zone
    )
    select id, organization_id, team_id, name, rpm_limit, tpm_limit, budget_usd::numeric, budget_period, budget_time_zone
    from given where kind = 'user'
)
insert into api_keys (
    id, organization_id, team_id, project_id, user_id, name,
    rpm_limit, tpm_limit, budget_usd, budget_period, budget_time_zone, secret_hmac
)
select id, organization_id, team_id, project_id, user_id, name,
       rpm_limit, tpm_limit, budget_usd::numeric, budget_period, budget_time_zone, secret_hmac
from given where kind = 'key'
