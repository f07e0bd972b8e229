-- Whether this month and the next have partitions of usage_events, and how many of its rows have none, up to 1000.
select to_regclass(to_char(month, '"usage_events_"YYYY_MM')) is not null as "this_month!",
       to_regclass(to_char(month + interval '1 month', '"usage_events_"YYYY_MM')) is not null as "next_month!",
       (select count(*) from (select 1 from usage_events_default limit 1000) as unplaced) as "unplaced!"
from date_trunc('month', now() at time zone 'UTC') as month
