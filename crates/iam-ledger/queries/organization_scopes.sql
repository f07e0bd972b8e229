-- Every scope of one organization with its parent and limits, and the version that they are of.
-- $1 the organization's id.
select kind as "kind!", id as "id!", parent_kind, parent_id, rpm_limit, tpm_limit,
       coalesce((
           select version from config_versions where root_kind = 'organization' and root_id = $1
       ), 0) as "version!"
from scopes
where organization_id = $1
