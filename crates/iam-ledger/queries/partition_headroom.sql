-- How many months, from that of a day on and without a gap, have a partition of usage_events.
-- $1 any day of the first month, null for the server's today in UTC.
select count(*) as "months!"
from (
    select bool_and(exists (
        select from pg_inherits
        where inhparent = 'usage_events'::regclass
          and inhrelid = to_regclass(quote_ident('usage_events_' || to_char(month, 'YYYY_MM')))
    )) over (order by month) as gapless
    -- A century is more than anybody makes ahead.
    from generate_series(
        date_trunc('month', coalesce($1::date, (now() at time zone 'UTC')::date)::timestamp),
        date_trunc('month', coalesce($1::date, (now() at time zone 'UTC')::date)::timestamp) + interval '1199 months',
        interval '1 month'
    ) as month
) as months
where gapless
