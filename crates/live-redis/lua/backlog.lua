#!lua flags=allow-oom
-- How much waits in a queue and since when, without reading entries to the client.
--
-- KEYS[1]  list: the queue, oldest first
-- ARGV[1 ..] none
--
-- Returns {length, millisecond at which the head was made ready, in decimal; empty when the head does not say}.

local depth = redis.call('LLEN', KEYS[1])
local head = depth > 0 and redis.call('LINDEX', KEYS[1], 0) or ''
return { depth, string.match(head, '^{"seq":%d+,"chain":"%x+","queued":(%d+),') or '' }
