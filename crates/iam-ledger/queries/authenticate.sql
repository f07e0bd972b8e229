-- The key with this HMAC and the scopes above it, one row each; by a function, since gateways may not read HMACs. Whether its
-- budget path has any budget is of the same snapshot, so that a version says whether both are current.
-- $1 HMAC of the presented secret; $2 now.
with found as materialized (select * from authenticate_key($1, $2))
select kind as "kind!", id as "id!", rpm_limit, tpm_limit, blocked as "blocked!",
       secret_hmac as "secret_hmac!", valid_until, version as "version!",
       exists (
           select from found as subject, scope_path(subject.kind, subject.id) as level
           where subject.kind = 'key' and level.budget_usd is not null
       ) as "budgeted!"
from found
