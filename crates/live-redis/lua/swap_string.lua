#!lua
-- Stores a string if what is there is the expected one, or nothing where nothing is expected. Also if it is there already, so that
-- who stores a value of its own may repeat a call whose answer was lost.
--
-- KEYS[1]  string
-- ARGV[1]  new value
-- ARGV[2]  milliseconds until it expires
-- ARGV[3]  expected value; left out when there must be none
--
-- Returns 1 stored; 0 a third value, nothing written.
-- Errors (nothing written): WRONGTYPE.
-- First write: the only one, value and expiry together.

-- GET gives false for an absent key
local there = redis.call('GET', KEYS[1])
if there ~= (ARGV[3] or false) and there ~= ARGV[1] then
  return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
