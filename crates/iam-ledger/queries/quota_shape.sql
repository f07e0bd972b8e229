-- What a scope's path is, amounts left out: its levels, and at each level the budgets beside the path that reserve money there,
-- one more than $4 at most, which tells the caller that there are more. The version is that of the root's configuration at the
-- same moment; 0: never changed.
-- $1 kind; $2 id; $3 now; $4 how many budgets beside the path a level may list.
with path as materialized (
    select * from scope_path($1, $2)
), root as (
    select * from path where parent_kind is null
)
select current_setting('transaction_read_only')::boolean as "read_only!", path.kind as "kind!", path.id as "id!", scope_blocked(path.kind, path.id) as "blocked!", path.budget_usd::text as budget_usd,
       period_start(path.budget_period, $3::timestamptz, path.budget_time_zone) as "period_start!",
       period_end(path.budget_period, $3, path.budget_time_zone) as period_end,
       coalesce((select config.version from config_versions config join root on root.kind = config.root_kind and root.id = config.root_id), 0)
           as "version!",
       coalesce(beside.kinds, '{}') as "sibling_kinds!", coalesce(beside.ids, '{}') as "sibling_ids!",
       coalesce(beside.budgets_usd, '{}') as "sibling_budgets_usd!", coalesce(beside.starts, '{}') as "sibling_starts!",
       coalesce(beside.ends, '{}') as "sibling_ends!: Vec<Option<chrono::DateTime<chrono::Utc>>>"
from path
cross join lateral (
    select array_agg(a.kind) as kinds, array_agg(a.id) as ids, array_agg(a.budget_usd::text) as budgets_usd,
           array_agg(period_start(a.budget_period, $3, a.budget_time_zone)) as starts,
           array_agg(period_end(a.budget_period, $3, a.budget_time_zone)) as ends
    from (
        select *
        from budget_allocations
        -- The root comes from subqueries, so that an index finds its allocations before anything is joined.
        where (organization_id = (select root.organization_id from root)
               or root_user_id = (select root.id from root where root.organization_id is null))
          and ancestor_kind = path.kind and ancestor_id = path.id
          and not exists (select from path below where below.kind = budget_allocations.kind and below.id = budget_allocations.id)
        limit $4::bigint + 1
    ) as a
) as beside
order by path.level
