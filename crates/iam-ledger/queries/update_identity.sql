-- Changes what is given of one identity and keeps the rest. Says whether there is one.
-- $1 kind; $2 id; $3 name; $4 blocked; then a flag whether to change and the new value: $5, $6 rpm; $7, $8 tpm;
-- $9, $10 budget as decimal text; $11 period; $12 time zone. Null in $3, $4, $11 and $12 keeps.
with organization as (
    update organizations set
        name = coalesce($3::text, name),
        blocked = coalesce($4::boolean, blocked),
        rpm_limit = case when $5::boolean then $6::bigint else rpm_limit end,
        tpm_limit = case when $7::boolean then $8::bigint else tpm_limit end,
        budget_usd = case when $9::boolean then $10::text::numeric else budget_usd end,
        budget_period = coalesce($11::text, budget_period),
        budget_time_zone = coalesce($12::text, budget_time_zone)
    where $1::text = 'organization' and id = $2::text
    returning 1
), team as (
    update teams set
        name = coalesce($3, name),
        blocked = coalesce($4, blocked),
        rpm_limit = case when $5 then $6 else rpm_limit end,
        tpm_limit = case when $7 then $8 else tpm_limit end,
        budget_usd = case when $9 then $10::text::numeric else budget_usd end,
        budget_period = coalesce($11, budget_period),
        budget_time_zone = coalesce($12, budget_time_zone)
    where $1 = 'team' and id = $2
    returning 1
), project as (
    update projects set
        name = coalesce($3, name),
        blocked = coalesce($4, blocked),
        rpm_limit = case when $5 then $6 else rpm_limit end,
        tpm_limit = case when $7 then $8 else tpm_limit end,
        budget_usd = case when $9 then $10::text::numeric else budget_usd end,
        budget_period = coalesce($11, budget_period),
        budget_time_zone = coalesce($12, budget_time_zone)
    where $1 = 'project' and id = $2
    returning 1
), person as (
    update users set
        name = coalesce($3, name),
        blocked = coalesce($4, blocked),
        rpm_limit = case when $5 then $6 else rpm_limit end,
        tpm_limit = case when $7 then $8 else tpm_limit end,
        budget_usd = case when $9 then $10::text::numeric else budget_usd end,
        budget_period = coalesce($11, budget_period),
        budget_time_zone = coalesce($12, budget_time_zone)
    where $1 = 'user' and id = $2
    returning 1
), api_key as (
    update api_keys set
        name = coalesce($3, name),
        blocked = coalesce($4, blocked),
        rpm_limit = case when $5 then $6 else rpm_limit end,
        tpm_limit = case when $7 then $8 else tpm_limit end,
        budget_usd = case when $9 then $10::text::numeric else budget_usd end,
        budget_period = coalesce($11, budget_period),
        budget_time_zone = coalesce($12, budget_time_zone)
    where $1 = 'key' and id = $2
    returning 1
)
select exists (
    select from organization union all select from team union all select from project
    union all select from person union all select from api_key
) as "found!"
