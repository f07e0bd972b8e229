-- A request's hold.
-- $1 request id.
select kind, id, amount_usd::text as "amount_usd!", state::text as "state!", held_at, expires_at, ended_at, settled_at,
       cost_usd::text as cost_usd
from holds
where request_id = $1
