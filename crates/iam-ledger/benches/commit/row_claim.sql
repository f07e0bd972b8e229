-- Claims one request id.
-- $1 request id; $2 payload check; $3 commit time.
insert into settled_requests (request_id, payload_check, settled_at)
values ($1, $2, $3)
on conflict on constraint settled_requests_pkey do nothing
returning request_id
