-- The key with this HMAC and the scopes above it, one row each; by a function, since gateways may not read HMACs.
-- $1 HMAC of the presented secret; $2 now.
select kind as "kind!", id as "id!", rpm_limit, tpm_limit, blocked as "blocked!",
       secret_hmac as "secret_hmac!", valid_until, version as "version!"
from authenticate_key($1, $2)
