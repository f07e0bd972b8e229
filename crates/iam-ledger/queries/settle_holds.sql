-- Ends the holds of freshly committed events and records what each cost, also when it was more than was held, or when the hold
-- had expired or been released before. No two committers have the same fresh event, so they never wait for each other here.
-- $1 request ids; $2 picodollars of each, null for an unpriced one; $3 commit time.
with given as (
    select g.request_id, g.cost_pusd from unnest($1::text[], $2::bigint[]) as g (request_id, cost_pusd)
), settled as (
    update holds
    set state = 'settled',
        ended_at = coalesce(holds.ended_at, least(holds.expires_at, $3)),
        settled_at = $3,
        covered = holds.state = 'held' and holds.expires_at > $3,
        cost_usd = given.cost_pusd * 0.000000000001
    from given
    where holds.request_id = given.request_id and holds.state <> 'settled'
    returning holds.request_id
)
delete from hold_reservations using settled where hold_reservations.request_id = settled.request_id
