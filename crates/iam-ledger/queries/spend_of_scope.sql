-- Settled spend of one scope by period, oldest first.
-- $1 kind; $2 id.
select period_start, spend_usd::text as "spend_usd!", paid_events
from scope_spend
where kind = $1 and id = $2
order by period_start
