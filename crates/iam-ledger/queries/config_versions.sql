-- The versions of these billing roots; none for a root that never changed.
-- $1 kinds; $2 ids.
select root_kind as "kind!", root_id as "id!", version
from config_versions
where (root_kind, root_id) in (select kind, id from unnest($1::text[], $2::text[]) as given (kind, id))
