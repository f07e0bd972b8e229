-- Whether this session is encrypted, and how.
select ssl as "encrypted!", version from pg_stat_ssl where pid = pg_backend_pid()
