-- Makes monthly partitions of usage_events ahead of time.
-- $1 any day of the first month, null for the server's today in UTC; $2 how many months.
select ensure_usage_partitions(coalesce($1::date, (now() at time zone 'UTC')::date), $2::integer) as "created!"
