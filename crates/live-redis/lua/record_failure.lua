#!lua
-- Counts one failure of a deployment and, from the threshold on, starts or prolongs its cooldown.
--
-- KEYS[1]  string: failures in the counting window, a decimal integer; expires with the window
-- KEYS[2]  string: `1` while the deployment is cooled; expires with the cooldown
-- ARGV[1]  threshold in failures, 1 to 2^53-1
-- ARGV[2]  cooldown in milliseconds
-- ARGV[3]  counting window in milliseconds, from its first failure
--
-- Returns 1 when the deployment is cooled now, else 0.
-- Errors (nothing written): WRONGTYPE; DAMAGED a value is not what this script writes; FULL the count would pass
-- 2^53-1.
-- First write: the count. If it alone were lost, the next failure starts the cooldown.

local MAX = 9007199254740991
local call = redis.call
local fails, cooldown = KEYS[1], KEYS[2]
local duration = tonumber(ARGV[2])

local count, cooled = call('GET', fails), call('GET', cooldown)
if count and not (string.find(count, '^%d+$') and #count <= 16 and tonumber(count) <= MAX) then
  return redis.error_reply('DAMAGED ' .. fails .. ' is not an integer of 0 to 2^53-1')
end
if cooled and cooled ~= '1' then
  return redis.error_reply('DAMAGED ' .. cooldown .. ' is not a cooldown')
end
count = tonumber(count or 0) + 1
if count > MAX then
  return redis.error_reply('FULL ' .. fails .. ' would exceed 2^53-1')
end
-- negative: there is no key, or one that a foreign hand made to stay for ever
local window_left, cooldown_left = call('PTTL', fails), call('PTTL', cooldown)

call('INCR', fails)
if window_left < 0 then
  call('PEXPIRE', fails, ARGV[3])
end
if count >= tonumber(ARGV[1]) and cooldown_left < duration then
  call('SET', cooldown, '1', 'PX', ARGV[2])
  cooled = true
end
return cooled and 1 or 0
