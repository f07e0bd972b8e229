-- Requests and events that do not belong together: none on a ledger that works. The requests of archived months have their
-- events elsewhere: as many as were archived.
select
    (select count(*) from settled_requests as request
     where not exists (select from usage_events as event where event.request_id = request.request_id)) as "without_event!",
    (select coalesce(sum(events), 0)::bigint from archived_months) as "archived!",
    (select count(*) from usage_events as event
     where not exists (select from settled_requests as request where request.request_id = event.request_id)) as "without_request!",
    (select count(*) from (select from usage_events group by request_id having count(*) > 1) as twice) as "twice!"
