#!lua
-- Lets a string live on, or removes it, if it is the expected one.
--
-- KEYS[1]  string
-- ARGV[1]  expected value
-- ARGV[2]  milliseconds until it expires, from now; 0 removes it
--
-- Returns 1 renewed; 0 another value or none, nothing written.
-- Errors (nothing written): WRONGTYPE.
-- First write: the only one, the expiry.

if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
