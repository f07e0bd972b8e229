-- Which migrations a database has, and with which content.
select version, checksum, success
from _sqlx_migrations
order by version
