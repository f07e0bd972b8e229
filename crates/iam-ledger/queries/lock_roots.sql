-- Makes writers below the same billing roots take turns until their transactions end. The order keeps them from deadlocking.
-- FOR NO KEY UPDATE and not FOR UPDATE: the latter would also block the foreign keys of unrelated inserts.
-- $1 organizations; $2 users without one.
select id::text as "id!"
from (select id from organizations where id = any($1::text[]) order by id for no key update) as organization
union all
select id::text
from (select id from users where id = any($2::text[]) and organization_id is null order by id for no key update) as person
