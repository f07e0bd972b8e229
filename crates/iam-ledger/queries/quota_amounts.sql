-- What scopes have settled in their periods and hold, and the version of their root's configuration, all of one moment. Amounts
-- leave as decimal text; the rows are in the order of the scopes.
-- $1 kind and $2 id of the root; $3 kinds, $4 ids, $5 first instants of the periods and $6 first instants after them (null: never),
-- one each a scope; $7 now.
select coalesce((select config.version from config_versions config where config.root_kind = $1 and config.root_id = $2), 0) as "version!",
       -- Also on a standby, whose budgets may be old.
       current_setting('transaction_read_only')::boolean as "read_only!",
       settled.usd::text as "settled_usd!", held.usd::text as "held_usd!"
from unnest($3::text[], $4::text[], $5::timestamptz[], $6::timestamptz[]) with ordinality as scope (kind, id, first, beyond, place)
cross join lateral settled_spend(scope.kind, scope.id, scope.first, scope.beyond) as settled
cross join lateral (
    select coalesce(sum(h.amount_usd), 0) as usd
    from hold_reservations h
    where h.kind = scope.kind and h.id = scope.id and h.expires_at > $7::timestamptz
) as held
order by scope.place
