#!lua
-- Decides one request over a whole allocation tree and counts it, all levels or none.
--
-- The plain form of the algorithm: it reads every node, so it costs O(nodes). It is the twin of
-- rate_plan::check, statement for statement, and the two are tested against each other.
--
-- KEYS[1]  hash of one partition and minute: field = scope ref, value = four big-endian signed 64-bit
--          integers (rpm used, tpm used, rpm released, tpm released), each 0 to 2^53-1
-- ARGV[1]  seconds until the hash expires
-- ARGV[2]  demand in tokens, 0 to 2^53-1
-- ARGV[3]  number of nodes n, children before their parents
-- ARGV[4]  number of path nodes p
-- ARGV[5 .. 4+p]       path, leaf to root, as node numbers from 1
-- ARGV[5+p ..]         for each node: field, parent's number or 0, RPM limit or -1, TPM limit or -1
--
-- Returns {1} when admitted, {0, node, dimension (1 RPM, 2 TPM), limit, used, held for siblings} when refused.
-- Errors (nothing written): DAMAGED a counter is not what this script writes; FULL a counter would pass 2^53-1.
-- First write: the counters. Their loss would admit too much; a lost expiry would only keep a dead hash.

local MAX = 9007199254740991
local ttl, tokens, n, p = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local first = 5 + p

local field, parent, limit = {}, {}, { {}, {} }
for i = 1, n do
  local at = first + (i - 1) * 4
  field[i], parent[i] = ARGV[at], tonumber(ARGV[at + 1])
  limit[1][i], limit[2][i] = tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
end

local used, released = { {}, {} }, { {}, {} }
-- unpack fails on some thousands of values, so a wide tree is read in pieces
for from = 1, n, 1000 do
  local upto = math.min(from + 999, n)
  local packed = redis.call('HMGET', KEYS[1], unpack(field, from, upto))
  for i = from, upto do
    local value = packed[i - from + 1]
    if value then
      if #value ~= 32 then
        return redis.error_reply('DAMAGED rate counter of ' .. field[i] .. ' has ' .. #value .. ' bytes, not 32')
      end
      local a, b, c, d = struct.unpack('>i8i8i8i8', value)
      if a < 0 or b < 0 or c < 0 or d < 0 or a > MAX or b > MAX or c > MAX or d > MAX then
        return redis.error_reply('DAMAGED rate counter of ' .. field[i] .. ' is outside 0 to 2^53-1')
      end
      used[1][i], used[2][i], released[1][i], released[2][i] = a, b, c, d
    else
      used[1][i], used[2][i], released[1][i], released[2][i] = 0, 0, 0, 0
    end
  end
end

local path = {}
for step = 1, p do
  path[step] = tonumber(ARGV[4 + step])
end

for dimension = 1, 2 do
  local u, l = used[dimension], limit[dimension]
  local demand = dimension == 1 and 1 or tokens

  -- own: what a node may still use itself or has promised to fixed nodes below; below: the sum over its children
  local own, below = {}, {}
  for i = 1, n do
    below[i] = below[i] or 0
    own[i] = l[i] >= 0 and math.max(0, l[i] - u[i]) or below[i]
    local up = parent[i]
    if up > 0 then
      below[up] = (below[up] or 0) + own[i]
    end
  end

  local credit, child = 0, nil
  for step = 1, p do
    local v = path[step]
    local on_path = 0
    if child and parent[child] == v then
      on_path = own[child]
    else
      credit = 0
    end
    if l[v] >= 0 then
      local held = below[v] - on_path + math.max(0, on_path - credit)
      if l[v] == 0 or u[v] + held + demand > l[v] then
        return { 0, v, dimension, l[v], u[v], held }
      end
      credit = own[v]
    end
    child = v
  end
end

local set = {}
for step = 1, p do
  local v = path[step]
  local rpm, tpm = used[1][v] + 1, used[2][v] + tokens
  if rpm > MAX or tpm > MAX then
    return redis.error_reply('FULL rate counter of ' .. field[v] .. ' would exceed 2^53-1')
  end
  set[#set + 1] = field[v]
  set[#set + 1] = struct.pack('>i8i8i8i8', rpm, tpm, released[1][v], released[2][v])
end
-- a flat plan's path can be long too
for from = 1, #set, 1000 do
  redis.call('HSET', KEYS[1], unpack(set, from, math.min(from + 999, #set)))
end
redis.call('EXPIRE', KEYS[1], ttl)
return { 1 }
