#!lua
-- Appends one spend event, remembers its request id, and charges its scopes: all or nothing.
--
-- KEYS[1]  list: the queue, oldest first
-- KEYS[2]  hash: queue state (head, next, chain, format, shards, short)
-- KEYS[3]  hash: one bucket of remembered request ids, digest -> payload check
-- KEYS[4]  hash: scope ref -> pending picodollars
-- KEYS[5]  hash: scope ref -> pending paid events
-- ARGV[1]  digest of the request id within the bucket
-- ARGV[2]  payload check
-- ARGV[3]  event JSON of entry format 2 without its opening brace
-- ARGV[4]  shard count of the caller
-- ARGV[5]  picodollars to charge to each scope, decimal, 1 to 2^63-1; ignored without scopes
-- ARGV[6 ..] scopes to charge; none when the event is free or unpriced
--
-- Returns {0, sequence number, length} when appended, {1} when the same payload was queued before under this
-- request id, {2} when another payload was.
-- Errors (nothing written): SHARDS another shard count is in force; DAMAGED a value is not what these scripts
-- write; FULL a counter would pass 2^63-1.
-- Writes in the order of what their loss would cost: the event, the memory of its id, the counters, the state.
-- Amounts stay decimal text: a Lua number is a double and would round them.

local queue, state, seen, hot, count = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local amount = ARGV[5]

local function is_count(text, digits)
  return #text <= digits and string.find(text, '^[1-9]%d*$') ~= nil
end

-- whether a + b <= 2^63-1, for decimal texts of at most 19 digits: nine low digits and the rest, both exact
local function fits(a, b)
  local low = tonumber(string.sub(a, -9)) + tonumber(string.sub(b, -9))
  local high = (tonumber(string.sub(a, 1, -10)) or 0) + (tonumber(string.sub(b, 1, -10)) or 0)
  if low >= 1000000000 then
    low, high = low - 1000000000, high + 1
  end
  return high < 9223372036 or (high == 9223372036 and low <= 854775807)
end

local check = redis.call('HGET', seen, ARGV[1])
local depth = redis.call('LLEN', queue)
local known = redis.call('HMGET', state, 'next', 'chain', 'shards')
redis.call('HLEN', hot)
redis.call('HLEN', count)

if check then
  if #check ~= 4 then
    return redis.error_reply('DAMAGED payload check of a remembered request id has ' .. #check .. ' bytes, not 4')
  end
  return { check == ARGV[2] and 1 or 2 }
end
if known[3] and known[3] ~= ARGV[4] then
  return redis.error_reply('SHARDS the queue has ' .. known[3] .. ' shards, this client was set up for ' .. ARGV[4])
end
if (known[1] == false) ~= (known[2] == false) then
  return redis.error_reply('DAMAGED queue state has next or chain, not both')
end
local seq = known[1] or '1'
if not is_count(seq, 15) then
  return redis.error_reply('DAMAGED queue state: next is not a sequence number')
end
local chain = known[2] or string.rep('0', 40)
if #chain ~= 40 or string.find(chain, '[^0-9a-f]') then
  return redis.error_reply('DAMAGED queue state: chain is not a SHA-1')
end
for i = 6, #ARGV do
  local pending, events = redis.call('HGET', hot, ARGV[i]), redis.call('HGET', count, ARGV[i])
  if (pending and not is_count(pending, 19)) or (events and not is_count(events, 15)) then
    return redis.error_reply('DAMAGED pending spend of ' .. ARGV[i] .. ' is not a positive integer')
  end
  if (pending == false) ~= (events == false) then
    return redis.error_reply('DAMAGED pending spend of ' .. ARGV[i] .. ' has an amount or a count, not both')
  end
  if pending and depth > 0 and not fits(pending, amount) then
    return redis.error_reply('FULL pending spend of ' .. ARGV[i] .. ' would exceed 9223372.036854775807 USD')
  end
end

chain = redis.sha1hex(chain .. seq .. ARGV[3])
redis.call('RPUSH', queue, '{"seq":' .. seq .. ',"chain":"' .. chain .. '",' .. ARGV[3])
redis.call('HSET', seen, ARGV[1], ARGV[2])
if depth == 0 then
  -- nothing was pending, whatever a foreign hand left behind
  redis.call('DEL', hot, count)
  redis.call('HDEL', state, 'short')
  redis.call('HSET', state, 'head', seq)
end
for i = 6, #ARGV do
  redis.call('HINCRBY', hot, ARGV[i], amount)
  redis.call('HINCRBY', count, ARGV[i], 1)
end
redis.call('HSET', state, 'next', string.format('%.0f', tonumber(seq) + 1), 'chain', chain, 'format', '2', 'shards', ARGV[4])
return { 0, tonumber(seq), depth + 1 }
