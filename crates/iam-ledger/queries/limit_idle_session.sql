-- Bounds how long a process that was suspended can keep its shards from others: a living one asks every second.
select set_config('idle_session_timeout', $1, false) as "setting!"
