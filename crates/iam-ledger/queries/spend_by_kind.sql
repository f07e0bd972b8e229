-- Settled spend of all scopes of each kind, over all periods.
select
    kind,
    count(distinct id) as "scopes!",
    sum(spend_usd)::text as "spend_usd!",
    sum(paid_events)::bigint as "paid_events!"
from scope_spend
group by kind
order by kind
