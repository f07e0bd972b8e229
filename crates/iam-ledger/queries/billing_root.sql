-- The billing root of an identity: its organization, else its user. Owners never change, so that it may be read before the
-- root is locked.
-- $1 kind; $2 id.
select case when organization_id is null then 'user' else 'organization' end as "kind!",
       coalesce(organization_id, parent_id, id) as "id!"
from scopes
where kind = $1 and id = $2
