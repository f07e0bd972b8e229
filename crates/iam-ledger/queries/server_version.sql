-- The version of the server as a number, 150004 for 15.4, whether it is a standby, and whether this role or database is one that only
-- reads: then a read-only session says nothing of the server.
select current_setting('server_version_num')::integer as "version!", pg_is_in_recovery() as "standby!",
       coalesce((
           select setting = 'on' and source in ('database', 'user', 'database user')
           from pg_settings
           where name = 'default_transaction_read_only'
       ), false) as "reader!"
