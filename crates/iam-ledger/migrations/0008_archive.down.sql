-- Takes away what is recorded of archived months and of spools. Detached partitions stay as tables of their own; without the
-- record an audit calls their events missing.
drop table spool_announcements;
drop function archive_usage_month(date);
drop table archived_scope_spend, archived_months;
