#!lua
-- Stores a string if what is there is the expected one, or nothing where nothing is expected.
--
-- KEYS[1]  string
-- ARGV[1]  new value
-- ARGV[2]  milliseconds until it expires
-- ARGV[3]  expected value; left out when there must be none
--
-- Returns 1 stored; 0 another value, nothing written.
-- Errors (nothing written): WRONGTYPE.
-- First write: the only one, value and expiry together.

-- GET gives false for an absent key
if redis.call('GET', KEYS[1]) ~= (ARGV[3] or false) then
  return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
