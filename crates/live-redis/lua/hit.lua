#!lua
-- Adds to a counter of one minute.
--
-- KEYS[1]  string: the counter, a decimal integer of 0 to 2^53-1
-- ARGV[1]  what to add, 0 to 2^53-1
-- ARGV[2]  milliseconds until the counter expires, from now
--
-- Returns the counter's new value.
-- Errors (nothing written): WRONGTYPE; DAMAGED the counter is not what this script writes; FULL it would pass 2^53-1.
-- First write: the count.

local MAX = 9007199254740991
local counter = KEYS[1]

local value = redis.call('GET', counter)
if value and not (string.find(value, '^%d+$') and #value <= 16 and tonumber(value) <= MAX) then
  return redis.error_reply('DAMAGED ' .. counter .. ' is not an integer of 0 to 2^53-1')
end
-- a sum that is no longer exact is still above the bound
if tonumber(value or 0) + tonumber(ARGV[1]) > MAX then
  return redis.error_reply('FULL ' .. counter .. ' would exceed 2^53-1')
end

value = redis.call('INCRBY', counter, ARGV[1])
redis.call('PEXPIRE', counter, ARGV[2])
return value
