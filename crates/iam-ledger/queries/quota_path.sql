-- Which levels of a scope's path have a budget, and when its period began: what hot money must be read for.
-- $1 kind; $2 id; $3 now.
select kind as "kind!", id as "id!", budget_usd is not null as "budgeted!",
       period_start(budget_period, $3::timestamptz, budget_time_zone) as "period_start!"
from scope_path($1, $2)
order by level
