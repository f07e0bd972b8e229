-- Whether nothing was ever settled or refused here.
select not exists (select from settled_requests) and not exists (select from dead_letters)
       and not exists (select from flush_log) as "empty!"
