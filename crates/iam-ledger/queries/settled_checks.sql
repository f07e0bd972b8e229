-- What is stored under request ids that were settled before. A statement of its own: the one that found them taken may
-- not see in its snapshot what a concurrent committer had just stored.
-- $1 request ids.
select request_id, payload_check
from settled_requests
where request_id = any ($1::text[])
