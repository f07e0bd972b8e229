#!lua
-- Decides one request and counts it on every level of its path, or on none. O(path), whatever the tree. The path
-- is a chain of parents, or one node of a flat plan.
--
-- KEYS[1]  hash of one partition and minute: `v` = version of the tree, `t` as in turn.lua, field = scope ref, value = four
--          big-endian 64-bit integers (rpm used, tpm used, rpm released, tpm released), each 0 to 2^53-1
-- KEYS[2], KEYS[3]  only with the server's clock: KEYS[1..3] are the minute before, of and after ARGV[4]
-- ARGV[1]  version of the caller's tree: its fingerprint, padded to 65 bytes
-- ARGV[2]  for each path node, leaf to root: four big-endian 64-bit integers (RPM limit or -1, TPM limit or -1,
--          RPM promised, TPM promised); promised = what the children hold while nothing is used
-- ARGV[3]  demand in tokens, 0 to 2^53-1
-- ARGV[4]  a minute, when the server's clock is to decide; else empty
-- ARGV[5 ..]  field of each path node, leaf to root
--
-- Returns {code, value or nil of each path node before the decision, server's second when asked for}; code:
-- '1' admitted, '0' refused, '2' a counter would pass 2^53-1. The caller derives the details from the values.
-- Or {'R', second} when the hash belongs to another version of the tree, {'C', second} when the server's minute
-- is none of the three. Nothing is written then.
-- Errors (nothing written): DAMAGED a counter is not what these scripts write; used is 0 to 2^53-1, released at
-- most promised.
-- First write: the counters. Their loss would admit too much; a lost expiry would only keep a dead hash.

local MAX, TTL = 9007199254740991, 120
local call, sunpack, spack = redis.call, struct.unpack, struct.pack
local key, version, plan, tokens = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])

local second
if ARGV[4] ~= '' then
  second = tonumber(call('TIME')[1])
  key = KEYS[math.floor(second / 60) - ARGV[4] + 2]
  if not key then
    return { 'C', second }
  end
end

local got = call('HMGET', key, 'v', unpack(ARGV, 5))
local fresh = not got[1]
if got[1] ~= version and (not fresh or call('EXISTS', key) == 1) then
  return { 'R', second }
end

-- One pass decides and prepares the new values; they are thrown away when a later node refuses.
-- What siblings hold at a fixed node is promised - released - credit: credit is what the nearest fixed path node
-- below still has, and the shared nodes between them pass it up unchanged.
local set = { 0, 0, 0, 0, 0, 0, 0, 0 }
local k, refused, full = 0, false, false
local rpm_credit, tpm_credit, rpm_released, tpm_released = 0, 0, 0, 0
for i = 2, #ARGV - 3 do
  local rpm_limit, tpm_limit, rpm_promised, tpm_promised = sunpack('>i8i8i8i8', plan, i * 32 - 63)
  local rpm, tpm, rpm_back, tpm_back = 0, 0, 0, 0
  local value = got[i]
  if value then
    if #value ~= 32 then
      return redis.error_reply('DAMAGED rate counter of ' .. ARGV[i + 3] .. ' has ' .. #value .. ' bytes, not 32')
    end
    rpm, tpm, rpm_back, tpm_back = sunpack('>I8I8I8I8', value)
    if rpm > MAX or tpm > MAX or rpm_back > rpm_promised or tpm_back > tpm_promised then
      return redis.error_reply('DAMAGED rate counter of ' .. ARGV[i + 3] .. ' is out of bounds')
    end
  end
  set[k + 1] = ARGV[i + 3]
  set[k + 2] = spack('>I8I8I8I8', rpm + 1, tpm + tokens, rpm_back + rpm_released, tpm_back + tpm_released)
  k = k + 2
  if rpm_limit >= 0 then
    if rpm_limit == 0 or rpm + rpm_promised - rpm_back - rpm_credit >= rpm_limit then
      refused = true
    end
    rpm_credit = rpm_limit > rpm and rpm_limit - rpm or 0
    rpm_released = 1
  elseif rpm == MAX then
    full = true
  end
  if tpm_limit >= 0 then
    if tpm_limit == 0 or tpm + tpm_promised - tpm_back - tpm_credit + tokens > tpm_limit then
      refused = true
    end
    tpm_credit = tpm_limit > tpm and tpm_limit - tpm or 0
    tpm_released = tokens
  elseif tpm + tokens > MAX then
    full = true
  end
end

if second then
  got[#ARGV - 2] = second
end
if refused or full then
  got[1] = refused and '0' or '2'
  return got
end
if fresh then
  call('HSET', key, 'v', version, unpack(set, 1, k))
  call('EXPIRE', key, TTL)
else
  call('HSET', key, unpack(set, 1, k))
end
got[1] = '1'
return got
