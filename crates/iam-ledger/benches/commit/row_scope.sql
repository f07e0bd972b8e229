-- Charges one scope for one event, in the period of the event's start. $1 kind; $2 id; $3 start; $4 cost.
insert into scope_spend as stored (kind, id, period_start, spend_usd, paid_events)
select given.kind, given.id,
       period_start(coalesce(scopes.budget_period, 'none'), $3::timestamptz, coalesce(scopes.budget_time_zone, 'UTC')),
       $4::text::numeric, 1
from (values ($1::text, $2::text)) as given (kind, id)
left join scopes on scopes.kind = given.kind and scopes.id = given.id
on conflict on constraint scope_spend_pkey do update set
    spend_usd = stored.spend_usd + excluded.spend_usd,
    paid_events = stored.paid_events + 1
