-- How many events are in no month's partition. It reads all of them: there should be none.
select count(*) as "rows!" from usage_events_default
