-- What each level of a scope's path has settled, holds and reserves, and the version of its root's configuration, all of one
-- moment. Amounts leave as decimal text. For paths with more budgets beside them than are listed one by one.
-- $1 kind; $2 id; $3 now.
select current_setting('transaction_read_only')::boolean as "read_only!", levels.kind as "kind!", levels.id as "id!", blocked as "blocked!", budget_usd::text as budget_usd,
       period_start as "period_start!", period_end,
       settled_usd::text as "settled_usd!", held_usd::text as "held_usd!", reserved_usd::text as "reserved_usd!",
       sibling_kinds as "sibling_kinds!", sibling_ids as "sibling_ids!",
       sibling_left_usd as "sibling_left_usd!", sibling_held_usd as "sibling_held_usd!",
       -- The root is the last level. Another level may have been a root once.
       coalesce(last_value(config.version) over (order by level rows between unbounded preceding and unbounded following), 0) as "version!"
from budget_levels($1, $2, $3) as levels
left join config_versions as config on config.root_kind = levels.kind and config.root_id = levels.id
order by level
