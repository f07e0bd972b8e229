-- Reserves an amount at every level of a subject's path, or at none, and says what each level has.
-- $1 request id; $2 kind and $3 id of the subject; $4 amount as decimal text; $5 now; $6 when it expires; $7 whether the lock of the
-- path's budgets is held: without it no budget may be decided upon.
with path as materialized (
    select * from budget_levels($2, $3, $5)
), placed as (
    insert into holds (request_id, kind, id, organization_id, amount_usd, state, held_at, expires_at)
    select $1, $2, $3, subject.organization_id, $4::text::numeric, 'held', $5, $6::timestamptz
    from path as subject
    where subject.level = 0
      and not exists (select from path where blocked)
      and not exists (
          select from path
          where budget_usd is not null
            and (not $7::boolean or budget_usd = 0
                 or settled_usd + held_usd + reserved_usd + $4::text::numeric > budget_usd)
      )
      and not exists (select from settled_requests where request_id = $1)
    on conflict on constraint holds_pkey do nothing
    returning request_id
), reserved as (
    insert into hold_reservations (request_id, kind, id, amount_usd, expires_at)
    select placed.request_id, path.kind, path.id, $4::text::numeric, $6::timestamptz
    from placed
    cross join path
)
select kind as "kind!", id as "id!", blocked as "blocked!", budget_usd::text as budget_usd,
       period_start as "period_start!", period_end,
       settled_usd::text as "settled_usd!", held_usd::text as "held_usd!", reserved_usd::text as "reserved_usd!",
       exists (select from placed) as "placed!",
       exists (select from settled_requests where request_id = $1) as "settled!"
from path
order by level
