-- What the server and this session are set to, for the doctor.
select current_setting('server_version_num')::integer as "version!",
       current_setting('fsync') as "fsync!",
       current_setting('full_page_writes') as "full_page_writes!",
       current_setting('synchronous_commit') as "synchronous_commit!",
       current_setting('TimeZone') as "time_zone!",
       clock_timestamp() as "now!",
       -- Null over a Unix socket.
       coalesce(inet_server_addr() <<= inet '127.0.0.0/8' or inet_server_addr() = inet '::1', true) as "local!",
       pg_is_in_recovery() as "standby!"
