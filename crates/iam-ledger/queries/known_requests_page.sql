-- Request ids that are settled, in their order.
-- $1 the last one of the page before, empty for the first page; $2 page size.
select request_id
from settled_requests
where request_id > $1
order by request_id
limit $2
