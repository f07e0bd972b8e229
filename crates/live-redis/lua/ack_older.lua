#!lua flags=allow-oom
-- Takes a committed prefix off the queue of an older deployment and its charges off its float counters; a no-op when the
-- prefix changed. Old gateways and old flushers may work on the same keys at the same time.
--
-- allow-oom: a full Redis must be able to drain.
--
-- KEYS[1]  list: entries of format 1, oldest first
-- KEYS[2 ..] string: one float counter for each charged scope
-- ARGV[1]  number of entries n, 1 to 10000
-- ARGV[2]  digest of the n entries (parts/prefix.lua)
-- ARGV[3 ..] for each counter: the amount to take off, in USD, decimal
--
-- Returns {0} when the head of the queue is not that prefix (nothing changed), else {1, entries left, 0}.
-- Errors (nothing written): DAMAGED a counter is not a number.
-- Floats drift: a counter that is left with less than half a picodollar is removed.

-- what INCRBYFLOAT takes and writes: tonumber also takes blanks, hexadecimal and infinity
local function is_float(text)
  return #text < 128 and string.find(text, '^%-?%d+%.?%d*$') ~= nil
end

local n = tonumber(ARGV[1])
local depth = redis.call('LLEN', KEYS[1])
if depth < n or read_prefix(KEYS[1], n) ~= ARGV[2] then
  return { 0 }
end
local held = {}
for i = 2, #KEYS do
  local value = redis.call('GET', KEYS[i])
  if value and not is_float(value) then
    return redis.error_reply('DAMAGED counter ' .. KEYS[i] .. ' of the older deployment is not a number')
  end
  held[i] = value
end

redis.call('LTRIM', KEYS[1], n, -1)
for i = 2, #KEYS do
  if held[i] then
    local left = depth > n and tonumber(redis.call('INCRBYFLOAT', KEYS[i], '-' .. ARGV[i + 1])) or 0
    if left < 5e-13 then
      redis.call('DEL', KEYS[i])
    end
  end
end
return { 1, depth - n, 0 }
