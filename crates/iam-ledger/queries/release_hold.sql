-- Gives a hold's money back; one that had expired before is recorded as that.
-- $1 request id; $2 now.
with ended as (
    update holds
    set state = case when expires_at > $2 then 'released' else 'expired' end,
        ended_at = least(expires_at, $2)
    where request_id = $1 and state = 'held'
    returning request_id, state
), freed as (
    delete from hold_reservations using ended where hold_reservations.request_id = ended.request_id
)
select state::text as "state!" from ended
