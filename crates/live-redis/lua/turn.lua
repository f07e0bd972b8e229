#!lua
-- Whose turn it is to rebuild a minute's counters for a version of the tree, so that of many gateways that meet another version
-- at once one does the work, and the others ask again.
--
-- KEYS[1]  hash of one partition and minute, as in admit_one.lua; `t` = when the turn ends, in the server's milliseconds
-- ARGV[1]  version of the caller's tree, as in admit_one.lua
-- ARGV[2]  how long a turn lasts, in milliseconds; 0 gives it back
--
-- Returns 0 nothing is to be rebuilt, 1 the turn is the caller's, 2 somebody else has it.
-- First write: the turn. Its loss costs one more rebuild, and nothing else; so does a turn that ends before its work.

local call = redis.call
local key, lasts = KEYS[1], tonumber(ARGV[2])
local got = call('HMGET', key, 'v', 't')
if lasts == 0 then
  call('HDEL', key, 't')
  return 0
end
if got[1] == ARGV[1] or call('EXISTS', key) == 0 then
  return 0
end
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local ends = got[2] and tonumber(got[2])
-- a turn that would last longer than any does is of no clock of this server
if ends and now < ends and ends <= now + lasts then
  return 2
end
call('HSET', key, 't', string.format('%.0f', now + lasts))
return 1
