#!lua
-- Marks a recorded loss, or what was moved aside, as dealt with, if it is still the one that was looked at; nothing is removed.
--
-- KEYS[1]  list: recorded losses (parts/lost.lua), or what was moved aside (quarantine.lua)
-- ARGV[1]  its place in that list, 0 for the oldest
-- ARGV[2]  the whole item that was looked at, byte for byte
-- ARGV[3]  the item in its place: the same, with who acknowledged it and why
--
-- Returns 1, or 0 when the item is another one (nothing changed).

if redis.call('LINDEX', KEYS[1], ARGV[1]) ~= ARGV[2] then
  return 0
end
redis.call('LSET', KEYS[1], ARGV[1], ARGV[3])
return 1
