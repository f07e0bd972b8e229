#!lua flags=allow-oom
-- Takes a committed prefix off the queue and its charges off the counters; a no-op when the prefix changed.
--
-- allow-oom: a full Redis must be able to drain.
--
-- KEYS[1]  list: the queue, oldest first
-- KEYS[2]  hash: queue state (head, next, chain, format, shards, short)
-- KEYS[3]  hash: scope ref -> pending picodollars
-- KEYS[4]  hash: scope ref -> pending paid events
-- ARGV[1]  number of entries n, 1 to 10000
-- ARGV[2]  the first entry, byte for byte
-- ARGV[3]  the n-th entry, byte for byte; its chain proves all entries before it
-- ARGV[4]  sequence number that follows the n-th entry's
-- ARGV[5 ..] for each charged scope: scope ref, picodollars, paid events (decimal, 1 or more)
--
-- Returns {0} when the head of the queue is not that prefix (nothing changed), else
-- {1, entries left, number of counters that held too little}.
-- Errors (nothing written): DAMAGED a value is not what these scripts write.
-- First write: the trim. If it alone were lost, the batch would come again and the ledger would know its ids.

local queue, state, hot, count = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local n = tonumber(ARGV[1])

local function is_count(text, digits)
  return #text <= digits and string.find(text, '^[1-9]%d*$') ~= nil
end

-- a < b for decimal texts without leading zeros
local function less(a, b)
  return #a < #b or (#a == #b and a < b)
end

local depth = redis.call('LLEN', queue)
local next_seq, short_before = unpack(redis.call('HMGET', state, 'next', 'short'))
redis.call('HLEN', hot)
redis.call('HLEN', count)
if redis.call('LINDEX', queue, 0) ~= ARGV[2] or redis.call('LINDEX', queue, n - 1) ~= ARGV[3] then
  return { 0 }
end
if next_seq and not is_count(next_seq, 15) then
  return redis.error_reply('DAMAGED queue state: next is not a sequence number')
end
if short_before and not is_count(short_before, 15) then
  return redis.error_reply('DAMAGED queue state: short is not a positive integer')
end

local scopes = {}
local short = 0
for i = 5, #ARGV, 3 do
  local scope, amount, events = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local pending, paid = redis.call('HGET', hot, scope), redis.call('HGET', count, scope)
  if (pending and not is_count(pending, 19)) or (paid and not is_count(paid, 15)) then
    return redis.error_reply('DAMAGED pending spend of ' .. scope .. ' is not a positive integer')
  end
  local whole = pending == amount and paid == events
  local part = pending and paid and less(amount, pending) and less(events, paid)
  if not whole and not part then
    short = short + 1
  end
  scopes[#scopes + 1] = { scope, part and '-' .. amount, part and '-' .. events }
end

redis.call('LTRIM', queue, n, -1)
depth = depth - n
if depth == 0 then
  -- nothing is pending: the index is gone, and with it whatever was wrong with it
  redis.call('DEL', hot, count)
  redis.call('HDEL', state, 'short')
  redis.call('HSET', state, 'head', next_seq or ARGV[4])
else
  for _, change in ipairs(scopes) do
    if change[2] then
      redis.call('HINCRBY', hot, change[1], change[2])
      redis.call('HINCRBY', count, change[1], change[3])
    else
      redis.call('HDEL', hot, change[1])
      redis.call('HDEL', count, change[1])
    end
  end
  if short > 0 then
    redis.call('HINCRBY', state, 'short', short)
  end
  redis.call('HSET', state, 'head', ARGV[4])
end
return { 1, depth, short }
