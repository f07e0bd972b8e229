#!lua
-- Stores a string, whatever string was there; a key of another type is left alone.
--
-- KEYS[1]  string
-- ARGV[1]  value
-- ARGV[2]  milliseconds until it expires
--
-- Returns 1.
-- Errors (nothing written): WRONGTYPE.
-- First write: the only one, value and expiry together.

-- SET alone would replace a key of any type
redis.call('STRLEN', KEYS[1])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
