#!lua flags=allow-oom
-- Length and state of a queue, of one moment.
--
-- KEYS[1]  list: the queue, oldest first
-- KEYS[2]  hash: queue state
-- ARGV[1 ..] none
--
-- Returns {length, head, next, chain, doubt}; a field that is not there is an empty string.

local known = redis.call('HMGET', KEYS[2], 'head', 'next', 'chain', 'doubt')
local reply = { redis.call('LLEN', KEYS[1]) }
for i = 1, 4 do
  reply[i + 1] = known[i] or ''
end
return reply
