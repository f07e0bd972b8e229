#!lua flags=no-writes
-- What is pending for a scope, exactly.
--
-- KEYS[1 .. 6]  as parts/index.lua has them
-- ARGV[1]  scope ref
-- ARGV[2]  most entries to go through when the index is in doubt
--
-- Returns {picodollars in decimal, entries that were gone through: 0 when the index was proven}.
-- Errors: DAMAGED a counter is not what these scripts write, or the index is in doubt and an entry cannot be read;
-- UNPROVEN the index is in doubt and the queue is longer than ARGV[2].

local depth = redis.call('LLEN', queue)
if not proven(depth, read_state()) then
  return pending_by_entries(depth, ARGV[1], nil, tonumber(ARGV[2]))
end
if depth == 0 then
  return { '0', 0 }
end
local amount = counter_of(ARGV[1])
if type(amount) == 'table' then
  return amount
end
return { amount, 0 }
