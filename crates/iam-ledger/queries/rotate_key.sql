-- Gives a key another secret under the same id. The old one is kept only if it is to be accepted for a while.
-- $1 id; $2 HMAC of the new secret; $3 first instant at which the old one is refused, null for at once.
update api_keys set
    secret_hmac = $2,
    secret_hmac_previous = case when $3::timestamptz is not null then secret_hmac end,
    previous_valid_until = case when secret_hmac is not null then $3 end
where id = $1::text
