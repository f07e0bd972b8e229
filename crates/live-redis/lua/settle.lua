#!lua
-- Corrects what an admission counted, once, in the minute in which it counted it.
--
-- KEYS[1]  hash of the admission's partition and minute, as in admit_one.lua
-- KEYS[2]  set of the tickets of this partition and minute that are settled
-- ARGV[1]  version of the tree that the admission was decided under, as in admit_one.lua
-- ARGV[2]  as in admit_one.lua
-- ARGV[3]  the ticket, 16 bytes
-- ARGV[4]  tokens that the admission counted
-- ARGV[5]  requests to add (-1 or 0)
-- ARGV[6]  tokens to add (negative: to give back)
-- ARGV[7]  1 when the plan is flat, else 0
-- ARGV[8 ..]  field of each path node, leaf to root
--
-- Returns 1 done, 0 settled before, -1 expired (nothing is left of that minute), -2 unknown (the counters never
-- counted it). Nothing is written unless done.
-- Errors (nothing written): DAMAGED a counter is not what these scripts write; FULL a counter would pass 2^53-1.
-- First write: the counters. If the ticket's mark alone were lost, the same correction could be made again.

local MAX, TTL = 9007199254740991, 120
local call, sunpack, spack = redis.call, struct.unpack, struct.pack
local key, settled, plan = KEYS[1], KEYS[2], ARGV[2]
local counted, add_rpm, add_tpm = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local flat = ARGV[7] == '1'

local seen = call('SISMEMBER', settled, ARGV[3])
if call('EXISTS', key) == 0 then
  return -1
end
local fields = #ARGV - 7
local value, version = {}, call('HGET', key, 'v')
for from = 1, fields, 1000 do
  local upto = math.min(from + 999, fields)
  local piece = call('HMGET', key, unpack(ARGV, 7 + from, 7 + upto))
  for i = from, upto do
    value[i] = piece[i - from + 1]
  end
end
if seen == 1 then
  return 0
end

local set = {}
local rpm_change, tpm_change = 0, 0
for i = 1, fields do
  local rpm_limit, tpm_limit = sunpack('>i8i8', plan, i * 32 - 31)
  if not value[i] then
    return -2
  end
  if #value[i] ~= 32 then
    return redis.error_reply('DAMAGED rate counter of ' .. ARGV[i + 7] .. ' has ' .. #value[i] .. ' bytes, not 32')
  end
  local rpm, tpm, rpm_released, tpm_released = sunpack('>I8I8I8I8', value[i])
  if rpm > MAX or tpm > MAX or rpm_released > MAX or tpm_released > MAX then
    return redis.error_reply('DAMAGED rate counter of ' .. ARGV[i + 7] .. ' is outside 0 to 2^53-1')
  end
  if rpm < 1 or tpm < counted then
    return -2
  end
  if tpm + add_tpm > MAX then
    return redis.error_reply('FULL rate counter of ' .. ARGV[i + 7] .. ' would exceed 2^53-1')
  end
  -- a node's releases follow what its child on the path still holds
  rpm_released, tpm_released = rpm_released - rpm_change, tpm_released - tpm_change
  if flat then
    rpm_released, tpm_released = 0, 0
  else
    if rpm_limit >= 0 then
      rpm_change = math.max(0, rpm_limit - rpm - add_rpm) - math.max(0, rpm_limit - rpm)
    end
    if tpm_limit >= 0 then
      tpm_change = math.max(0, tpm_limit - tpm - add_tpm) - math.max(0, tpm_limit - tpm)
    end
  end
  if version ~= ARGV[1] then
    -- another version's releases: it recomputes them from the counters, as its mark is taken off below
    rpm_released, tpm_released = 0, 0
  end
  set[2 * i - 1] = ARGV[i + 7]
  set[2 * i] = spack('>I8I8I8I8', rpm + add_rpm, tpm + add_tpm, rpm_released, tpm_released)
end

for from = 1, #set, 1000 do
  call('HSET', key, unpack(set, from, math.min(from + 999, #set)))
end
if version and version ~= ARGV[1] then
  call('HDEL', key, 'v')
end
call('SADD', settled, ARGV[3])
call('EXPIRE', settled, TTL)
return 1
