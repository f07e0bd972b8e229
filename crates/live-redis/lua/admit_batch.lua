#!lua
-- Decides several requests in the order given, each as `admit_one` would, in one call. O(sum of paths).
--
-- KEYS[1]  hash of one partition and minute, and KEYS[2], KEYS[3], as in admit_one.lua
-- ARGV[1], ARGV[4]  as in admit_one.lua
-- ARGV[2]  as in admit_one.lua, for each node of any of the paths
-- ARGV[3]  MessagePack array: whether the plan is flat; whether any request asks for more than 2^32 tokens; then for
--          each run of requests with the same path: number of path nodes, the nodes (from 1, leaf to root), number of
--          requests, tokens of each
-- ARGV[5 ..]  field of each node
--
-- Returns {codes, value or nil of each node before the first decision, server's second when asked for}; codes is
-- one character a request. {'R', second} and {'C', second} as in admit_one.lua.
-- Errors and first write: as in admit_one.lua.

local MAX, HALF, ENDLESS, TTL = 9007199254740991, 4503599627370496, math.huge, 120
local call, sunpack, spack = redis.call, struct.unpack, struct.pack
local key, version, plan = KEYS[1], ARGV[1], ARGV[2]
local n = #plan / 32

local second
if ARGV[4] ~= '' then
  second = tonumber(call('TIME')[1])
  key = KEYS[math.floor(second / 60) - ARGV[4] + 2]
  if not key then
    return { 'C', second }
  end
end

local got = call('HMGET', key, 'v', unpack(ARGV, 5, 4 + math.min(n, 1000)))
-- unpack fails on some thousands of values, so many nodes are read in pieces
for from = 1001, n, 1000 do
  local piece = call('HMGET', key, unpack(ARGV, 4 + from, 4 + math.min(from + 999, n)))
  for i = 1, math.min(1000, n - from + 1) do
    got[from + i] = piece[i]
  end
end
local fresh = not got[1]
if got[1] ~= version and (not fresh or call('EXISTS', key) == 1) then
  return { 'R', second }
end

local runs = cmsgpack.unpack(ARGV[3])
local flat, careful = runs[1], runs[2]

-- Of each node, for requests and for tokens: the room that its limit leaves beside what is held for others, credit
-- left out (endless without a limit, none at all with a limit of 0), and what it holds itself (false without a
-- limit); then its four counters; last, whether the batch has changed them.
local nodes = {}
for i = 1, n do
  local rpm_limit, tpm_limit, rpm_promised, tpm_promised = sunpack('>i8i8i8i8', plan, i * 32 - 31)
  local rpm, tpm, rpm_released, tpm_released = 0, 0, 0, 0
  local value = got[i + 1]
  if value then
    if #value ~= 32 then
      return redis.error_reply('DAMAGED rate counter of ' .. ARGV[i + 4] .. ' has ' .. #value .. ' bytes, not 32')
    end
    rpm, tpm, rpm_released, tpm_released = sunpack('>I8I8I8I8', value)
    if rpm > HALF or tpm > HALF or rpm_released > rpm_promised or tpm_released > tpm_promised then
      if rpm > MAX or tpm > MAX or rpm_released > rpm_promised or tpm_released > tpm_promised then
        return redis.error_reply('DAMAGED rate counter of ' .. ARGV[i + 4] .. ' is out of bounds')
      end
      careful = true
    end
  end
  nodes[i] = {
    rpm_limit < 0 and ENDLESS or rpm_limit == 0 and -ENDLESS or rpm_limit - rpm - rpm_promised + rpm_released,
    rpm_limit >= 0 and (rpm_limit > rpm and rpm_limit - rpm or 0),
    tpm_limit < 0 and ENDLESS or tpm_limit == 0 and -ENDLESS or tpm_limit - tpm - tpm_promised + tpm_released,
    tpm_limit >= 0 and (tpm_limit > tpm and tpm_limit - tpm or 0),
    rpm, tpm, rpm_released, tpm_released, false,
  }
end

local at, last = 3, #runs
local codes, decided = {}, 0
while at < last do
  -- What siblings hold does not change while one path admits, so the path's headrooms decide its whole run.
  local leaf, root = at + 1, at + runs[at]
  local rpm_room, tpm_room, rpm_credit, tpm_credit = ENDLESS, ENDLESS, 0, 0
  for step = leaf, root do
    local node = nodes[runs[step]]
    local room, own = node[1] + rpm_credit, node[2]
    if room < rpm_room then
      rpm_room = room
    end
    if own then
      rpm_credit = own
    end
    room, own = node[3] + tpm_credit, node[4]
    if room < tpm_room then
      tpm_room = room
    end
    if own then
      tpm_credit = own
    end
    if flat then
      rpm_credit, tpm_credit = 0, 0
    end
  end
  -- how far the counters themselves reach, where that can matter
  local rpm_reach, tpm_reach = ENDLESS, ENDLESS
  if careful then
    for step = leaf, root do
      local node = nodes[runs[step]]
      rpm_reach = math.min(rpm_reach, MAX - node[5])
      tpm_reach = math.min(tpm_reach, MAX - node[6])
    end
  end

  local requests = runs[root + 1]
  local rpm, tpm = 0, 0
  for ask = root + 2, root + 1 + requests do
    local tokens = runs[ask]
    decided = decided + 1
    if rpm >= rpm_room or tpm + tokens > tpm_room then
      codes[decided] = '0'
    elseif rpm >= rpm_reach or tpm + tokens > tpm_reach then
      codes[decided] = '2'
    else
      codes[decided] = '1'
      rpm, tpm = rpm + 1, tpm + tokens
    end
  end

  if rpm > 0 then
    -- a fixed node that admits gives up as much of what it held at its nearest fixed ancestor
    local rpm_released, tpm_released = 0, 0
    for step = leaf, root do
      local node = nodes[runs[step]]
      node[5], node[6], node[9] = node[5] + rpm, node[6] + tpm, true
      node[7], node[8] = node[7] + rpm_released, node[8] + tpm_released
      local own = node[2]
      if own then
        node[1], node[2] = node[1] - rpm + rpm_released, own - rpm
        rpm_released = flat and 0 or rpm
      end
      own = node[4]
      if own then
        node[3], node[4] = node[3] - tpm + tpm_released, own - tpm
        tpm_released = flat and 0 or tpm
      end
    end
  end
  at = root + 2 + requests
end

local set, k = {}, 0
for i = 1, n do
  local node = nodes[i]
  if node[9] then
    set[k + 1], set[k + 2] = ARGV[i + 4], spack('>I8I8I8I8', node[5], node[6], node[7], node[8])
    k = k + 2
  end
end
if k > 0 and fresh then
  call('HSET', key, 'v', version)
  call('EXPIRE', key, TTL)
end
for from = 1, k, 1000 do
  call('HSET', key, unpack(set, from, math.min(from + 999, k)))
end
if second then
  got[n + 2] = second
end
got[1] = table.concat(codes)
return got
