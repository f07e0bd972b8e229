-- What each level of a scope's path has settled, holds and reserves, of one moment. Amounts leave as decimal text.
-- $1 kind; $2 id; $3 now.
select kind as "kind!", id as "id!", blocked as "blocked!", budget_usd::text as budget_usd,
       period_start as "period_start!", period_end,
       settled_usd::text as "settled_usd!", held_usd::text as "held_usd!", reserved_usd::text as "reserved_usd!",
       sibling_kinds as "sibling_kinds!", sibling_ids as "sibling_ids!",
       sibling_left_usd as "sibling_left_usd!", sibling_held_usd as "sibling_held_usd!"
from budget_levels($1, $2, $3)
order by level
