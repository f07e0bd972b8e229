-- The next events in the order of their request ids.
-- $1 the last request id of the page before, empty for the first page; $2 page size.
select request_id, cost_usd::text as cost_usd, prompt_tokens, completion_tokens, scopes as "scopes!", started_at
from usage_events
where request_id > $1
order by request_id
limit $2
