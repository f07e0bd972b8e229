-- Sweeps holds whose time is over, the oldest first. Those that somebody else is ending at this moment are left to him.
-- $1 now; $2 at most so many.
with due as (
    select request_id
    from holds
    where state = 'held' and expires_at <= $1
    order by expires_at
    limit $2
    for update skip locked
), expired as (
    update holds
    set state = 'expired', ended_at = holds.expires_at
    from due
    where holds.request_id = due.request_id
    returning holds.request_id
), freed as (
    delete from hold_reservations using expired where hold_reservations.request_id = expired.request_id
)
select count(*) as "expired!" from expired
