-- Claims the request ids that nobody settled before: only what this returns may be counted. The order makes two
-- committers wait for each other in one direction only. All committers share a lock that a change of a budget's period or time
-- zone takes alone (move_spend): the statements behind this one see the periods from before it or after it, whole.
-- $1 request ids, none twice; $2 payload check of each; $3 commit time.
with shared as materialized (
    select pg_advisory_xact_lock_shared(hashtextextended('tallyweir charges', 0))
)
insert into settled_requests (request_id, payload_check, settled_at)
select given.request_id, given.payload_check, $3::timestamptz
from shared, unnest($1::text[], $2::bytea[]) as given (request_id, payload_check)
order by given.request_id collate "C"
on conflict on constraint settled_requests_pkey do nothing
returning request_id
