-- Every scope of one organization with its parent and limits.
-- $1 the organization's id.
select kind as "kind!", id as "id!", parent_kind, parent_id, rpm_limit, tpm_limit
from scopes
where organization_id = $1
