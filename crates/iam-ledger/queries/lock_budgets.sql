-- Lets one hold at a time decide below a root, until its transaction ends; a path without a budget waits for nobody. A statement
-- of its own, since the one that decides must see what the holder before had written. One lock a transaction, so no deadlock;
-- a shared hash only makes two roots wait for each other.
-- $1 kind; $2 id of the subject; $3 whether to lock in any case.
select pg_advisory_xact_lock(hashtextextended('tallyweir hold ' || root.kind || '/' || root.id, 0))::text as "locked!"
from scope_path($1, $2) as root
where root.parent_kind is null
  and ($3::boolean or exists (select from scope_path($1, $2) as level where level.budget_usd is not null))
