-- Takes usage away again, and with it every settled amount: only for databases whose loss is meant.
drop function ensure_usage_partitions(date, integer);
drop function period_start(text, timestamptz, text);
drop table flush_log, scope_spend_quarters, scope_spend, usage_daily, usage_events, settled_requests;
