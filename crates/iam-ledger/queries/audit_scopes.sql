-- Scopes whose settled spend, over all periods, is not what the events charge to them. An event names its scopes with `/` and
-- `%` of a kind escaped, hence the escapes here. What the events of archived months charged was recorded.
with charge as (
    select scope, count(*) as events, sum(cost_usd) as spend_usd
    from usage_events, unnest(scopes) as scope
    where cost_usd > 0
    group by scope
    union all
    select scope, events, spend_usd from archived_scope_spend
), charged as (
    select scope, sum(events) as events, sum(spend_usd) as spend_usd
    from charge
    group by scope
), settled as (
    select replace(replace(kind, '%', '%25'), '/', '%2F') || '/' || id as scope,
           sum(paid_events) as events, sum(spend_usd) as spend_usd
    from scope_spend
    group by 1
)
select scope as "scope!", coalesce(charged.spend_usd, 0)::text as "charged!", coalesce(settled.spend_usd, 0)::text as "settled!"
from charged
full join settled using (scope)
where charged.spend_usd is distinct from settled.spend_usd or charged.events is distinct from settled.events
order by scope
limit $1
