-- What each scope with children has and has allocated to them, in requests and tokens a minute and in USD. A child takes
-- its limit, or, where it is shared, what its own children take. Of money a scope has, and takes, what is left of its budget
-- in the period that it is in: settled spend is gone.
-- One pass from keys to organizations over all roots, since there are no more than four levels.
-- $1 organizations; $2 users without one; $3 the instant, null for the transaction's; then which rows to return:
-- $4 kinds and $5 ids, null for all that have allocated more than they have.
with nodes as (
    select scope.kind, scope.id, scope.parent_kind, scope.parent_id,
           scope.rpm_limit::numeric as rpm, scope.tpm_limit::numeric as tpm,
           case when scope.budget_usd is not null
                then greatest(scope.budget_usd - settled.usd, 0) end as usd
    from (
        select * from scopes where organization_id = any($1::text[])
        union all
        select * from scopes where kind = 'user' and id = any($2::text[]) and organization_id is null
        union all
        select * from scopes where kind = 'key' and parent_kind = 'user' and parent_id = any($2) and organization_id is null
    ) as scope
    left join lateral settled_spend(
        scope.kind, scope.id, period_start(scope.budget_period, coalesce($3::timestamptz, now()), scope.budget_time_zone),
        period_end(scope.budget_period, coalesce($3, now()), scope.budget_time_zone)
    ) as settled on scope.budget_usd is not null
), key_takes as (
    select parent_kind, parent_id, sum(rpm) as rpm, sum(tpm) as tpm, sum(usd) as usd
    from nodes
    where kind = 'key'
    group by 1, 2
), owner as (
    select nodes.*, coalesce(below.rpm, 0) as below_rpm, coalesce(below.tpm, 0) as below_tpm,
           coalesce(below.usd, 0) as below_usd
    from nodes
    left join key_takes as below on below.parent_kind = nodes.kind and below.parent_id = nodes.id
    where nodes.kind in ('user', 'project')
), owner_takes as (
    select parent_kind, parent_id, sum(rpm) as rpm, sum(tpm) as tpm, sum(usd) as usd
    from (
        select parent_kind, parent_id, rpm, tpm, usd from key_takes where parent_kind in ('team', 'organization')
        union all
        select parent_kind, parent_id, coalesce(rpm, below_rpm), coalesce(tpm, below_tpm), coalesce(usd, below_usd)
        from owner
    ) as takes
    group by 1, 2
), team as (
    select nodes.*, coalesce(below.rpm, 0) as below_rpm, coalesce(below.tpm, 0) as below_tpm,
           coalesce(below.usd, 0) as below_usd
    from nodes
    left join owner_takes as below on below.parent_kind = 'team' and below.parent_id = nodes.id
    where nodes.kind = 'team'
), team_takes as (
    select parent_id, sum(rpm) as rpm, sum(tpm) as tpm, sum(usd) as usd
    from (
        select parent_id, rpm, tpm, usd from owner_takes where parent_kind = 'organization'
        union all
        select parent_id, coalesce(rpm, below_rpm), coalesce(tpm, below_tpm), coalesce(usd, below_usd)
        from team
    ) as takes
    group by 1
), parent as (
    select * from owner
    union all
    select * from team
    union all
    select nodes.*, coalesce(below.rpm, 0), coalesce(below.tpm, 0), coalesce(below.usd, 0)
    from nodes
    left join team_takes as below on below.parent_id = nodes.id
    where nodes.kind = 'organization'
)
select parent.kind as "kind!", parent.id as "id!", dimension.name as "dimension!",
       dimension.available::text as available, dimension.allocated::text as "allocated!"
from parent
cross join lateral (values
    ('rpm', parent.rpm, parent.below_rpm),
    ('tpm', parent.tpm, parent.below_tpm),
    ('usd', parent.usd, parent.below_usd)
) as dimension (name, available, allocated)
where case when $4::text[] is null then dimension.allocated > dimension.available
           else (parent.kind, parent.id) in (select kind, id from unnest($4, $5::text[]) as given (kind, id)) end
order by 1, 2, 3
