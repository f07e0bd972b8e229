-- Records what a gateway's spool holds.
-- $1 the gateway; $2 events; $3 bytes; $4 when the oldest was made ready, null for an empty spool.
insert into spool_announcements (instance, events, bytes, oldest, announced_at)
values ($1, $2, $3, $4, now())
on conflict on constraint spool_announcements_pkey do update set
    events = excluded.events, bytes = excluded.bytes, oldest = excluded.oldest, announced_at = excluded.announced_at
