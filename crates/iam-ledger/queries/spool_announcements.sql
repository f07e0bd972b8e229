-- Spools that say that they hold bills, and how long ago they said so, in whole seconds.
-- $1 at most so many.
select instance, events, bytes, oldest, greatest(extract(epoch from now() - announced_at), 0)::bigint as "age_seconds!"
from spool_announcements
where events > 0
order by instance
limit $1
