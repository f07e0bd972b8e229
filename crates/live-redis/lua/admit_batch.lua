#!lua
-- Decides several requests in the order given, each as `admit_one` would, in one call. O(sum of paths).
--
-- KEYS[1]  hash of one partition and minute, and KEYS[2], KEYS[3], as in admit_one.lua
-- ARGV[1], ARGV[4]  as in admit_one.lua
-- ARGV[2]  as in admit_one.lua, for each node of any of the paths
-- ARGV[3]  MessagePack array: whether the plan is flat, then for each run of requests with the same path:
--          number of path nodes, the nodes (from 1, leaf to root), number of requests, tokens of each
-- ARGV[5 ..]  field of each node
--
-- Returns {codes, value or nil of each node before the first decision, server's second when asked for}; codes is
-- one character a request. {'R', second} and {'C', second} as in admit_one.lua.
-- Errors and first write: as in admit_one.lua.

local MAX, TTL = 9007199254740991, 120
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

-- of each node: what it has used and released; and its limits and promises
local window, terms = {}, {}
for i = 1, n do
  local t = { sunpack('>i8i8i8i8', plan, i * 32 - 31) }
  terms[i] = t
  local value = got[i + 1]
  if value then
    if #value ~= 32 then
      return redis.error_reply('DAMAGED rate counter of ' .. ARGV[i + 4] .. ' has ' .. #value .. ' bytes, not 32')
    end
    local w = { sunpack('>I8I8I8I8', value) }
    if w[1] > MAX or w[2] > MAX or w[3] > t[3] or w[4] > t[4] then
      return redis.error_reply('DAMAGED rate counter of ' .. ARGV[i + 4] .. ' is out of bounds')
    end
    window[i] = w
  else
    window[i] = { 0, 0, 0, 0 }
  end
end

local runs = cmsgpack.unpack(ARGV[3])
local flat, at, last = runs[1], 2, #runs
local codes, decided = {}, 0
local changed, any = {}, false
while at < last do
  -- What siblings hold does not change while one path admits, so the path's headrooms decide its whole run:
  -- requests, tokens, and how far the counters themselves reach.
  local leaf, root = at + 1, at + runs[at]
  local rpm_room, tpm_room, rpm_reach, tpm_reach = math.huge, math.huge, MAX, MAX
  local rpm_credit, tpm_credit = 0, 0
  for step = leaf, root do
    local node = runs[step]
    local w, t = window[node], terms[node]
    local limit, used = t[1], w[1]
    if limit >= 0 then
      local room = limit == 0 and -1 or limit - used - t[3] + w[3] + rpm_credit
      if room < rpm_room then
        rpm_room = room
      end
      rpm_credit = limit > used and limit - used or 0
    elseif MAX - used < rpm_reach then
      rpm_reach = MAX - used
    end
    limit, used = t[2], w[2]
    if limit >= 0 then
      local room = limit == 0 and -1 or limit - used - t[4] + w[4] + tpm_credit
      if room < tpm_room then
        tpm_room = room
      end
      tpm_credit = limit > used and limit - used or 0
    elseif MAX - used < tpm_reach then
      tpm_reach = MAX - used
    end
    if flat then
      rpm_credit, tpm_credit = 0, 0
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
    any = true
    -- a fixed node that admits gives up as much of what it held at its nearest fixed ancestor
    local rpm_released, tpm_released = 0, 0
    for step = leaf, root do
      local node = runs[step]
      local w = window[node]
      w[1], w[2], w[3], w[4] = w[1] + rpm, w[2] + tpm, w[3] + rpm_released, w[4] + tpm_released
      changed[node] = true
      if not flat then
        local t = terms[node]
        if t[1] >= 0 then
          rpm_released = rpm
        end
        if t[2] >= 0 then
          tpm_released = tpm
        end
      end
    end
  end
  at = root + 2 + requests
end

if any then
  if fresh then
    call('HSET', key, 'v', version)
    call('EXPIRE', key, TTL)
  end
  local set, k = {}, 0
  for i = 1, n do
    if changed[i] then
      local w = window[i]
      set[k + 1], set[k + 2] = ARGV[i + 4], spack('>I8I8I8I8', w[1], w[2], w[3], w[4])
      k = k + 2
      if k == 1000 then
        call('HSET', key, unpack(set, 1, k))
        k = 0
      end
    end
  end
  if k > 0 then
    call('HSET', key, unpack(set, 1, k))
  end
end
if second then
  got[n + 2] = second
end
got[1] = table.concat(codes)
return got
