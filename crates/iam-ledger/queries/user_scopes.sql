-- A user without an organization, who is a billing root, and the keys below, and the version that they are of.
-- $1 the user's id.
select kind as "kind!", id as "id!", parent_kind, parent_id, rpm_limit, tpm_limit,
       coalesce((select version from config_versions where root_kind = 'user' and root_id = $1), 0) as "version!"
from scopes
where kind = 'user' and id = $1 and organization_id is null
union all
select kind, id, parent_kind, parent_id, rpm_limit, tpm_limit,
       coalesce((select version from config_versions where root_kind = 'user' and root_id = $1), 0)
from scopes
where kind = 'key' and parent_kind = 'user' and parent_id = $1 and organization_id is null
