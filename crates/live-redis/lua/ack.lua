#!lua flags=allow-oom
-- Takes a committed prefix off the queue and its charges off the index; a no-op when the prefix changed.
--
-- allow-oom: a full Redis must be able to drain.
--
-- KEYS[1]  list: the queue, oldest first
-- KEYS[2]  hash: queue state (head, next, chain, format, shards, scopes, starts, doubt)
-- KEYS[3]  hash: scope ref -> pending picodollars
-- KEYS[4]  hash: scope ref -> pending paid events
-- KEYS[5]  sorted set, all scores 0: organization and start millisecond of pending events
-- KEYS[6]  hash: the same -> pending picodollars
-- KEYS[7]  list: recorded losses (parts/lost.lua)
-- ARGV[1]  number of entries n, 1 to 10000
-- ARGV[2]  digest of the n entries (parts/prefix.lua)
-- ARGV[3]  number of charged scopes
-- ARGV[4 ..] for each: scope ref, picodollars, paid events (decimal, 1 or more)
-- ARGV[.. ] for each place of the index by time: the place, picodollars
--
-- Returns {0} when the head of the queue is not that prefix (nothing changed), else
-- {1, entries left, number of counters that held too little}.
-- Errors (nothing written): DAMAGED a value is not what these scripts write.
-- Numbers that the state names and an emptied list never had are recorded as lost first.
-- First write but that: the trim. If it alone were lost, the batch would come again and the ledger would know its ids.
-- head moves by n and is not set to a number of the list: whatever was missing before is still missing after.

-- whether an entry's link is made from that of the entry before it
local function follows(before, entry)
  local chain = string.match(before, '^{"seq":%d+,"chain":"(%x+)",')
  local seq, link, queued, at = string.match(entry, '^{"seq":(%d+),"chain":"(%x+)","queued":(%d+),()')
  return chain and seq and link == redis.sha1hex(chain .. seq .. ',' .. queued .. ',' .. string.sub(entry, at))
end

local n = tonumber(ARGV[1])

local depth = redis.call('LLEN', queue)
local known = read_state()
local whole = sizes_as_written(known)
local digest, last = read_prefix(queue, n)
if depth < n or digest ~= ARGV[2] then
  return { 0 }
end
for i, name in ipairs({ 'head', 'next' }) do
  if known[i] and not is_count(known[i], 15) then
    return redis.error_reply('DAMAGED queue state: ' .. name .. ' is not a sequence number')
  end
end

-- what another hand put in place of an entry shows when it comes to the head: it may be charged otherwise than it was
local foreign = depth > n and not follows(last, redis.call('LINDEX', queue, n))

local scopes, owed, starts, owed_starts = {}, {}, {}, {}
local past_scopes = 4 + 3 * tonumber(ARGV[3])
for i = 4, past_scopes - 1, 3 do
  scopes[#scopes + 1], owed[#owed + 1] = ARGV[i], { ARGV[i + 1], ARGV[i + 2] }
end
for i = past_scopes, #ARGV, 2 do
  starts[#starts + 1], owed_starts[#owed_starts + 1] = ARGV[i], ARGV[i + 1]
end

local short = 0
local hot_pairs, count_pairs, gone = {}, {}, {}
local pending, paid = read_fields(hot, scopes), read_fields(count, scopes)
for i, scope in ipairs(scopes) do
  local amount, events = pending[i], paid[i]
  if (amount and not is_amount(amount)) or (events and not is_count(events, 15)) then
    return redis.error_reply('DAMAGED pending spend of ' .. scope .. ' is not a positive integer')
  end
  local high, low = parse(amount or '0')
  high, low = minus(high, low, parse(owed[i][1]))
  local left = tonumber(events or '0') - tonumber(owed[i][2])
  if high >= 0 and left > 0 and (high > 0 or low > 0) then
    hot_pairs[#hot_pairs + 1], hot_pairs[#hot_pairs + 2] = scope, decimal(high, low)
    count_pairs[#count_pairs + 1], count_pairs[#count_pairs + 2] = scope, string.format('%.0f', left)
  else
    gone[#gone + 1] = scope
    if high ~= 0 or low ~= 0 or left ~= 0 then
      short = short + 1
    end
  end
end
local amount_pairs, gone_starts = {}, {}
for i, amount in ipairs(read_fields(amounts, starts)) do
  if amount and not is_amount(amount) then
    return redis.error_reply('DAMAGED pending spend of one organization and start is not a positive integer')
  end
  local high, low = parse(amount or '0')
  high, low = minus(high, low, parse(owed_starts[i]))
  if high >= 0 and (high > 0 or low > 0) then
    amount_pairs[#amount_pairs + 1], amount_pairs[#amount_pairs + 2] = starts[i], decimal(high, low)
  else
    gone_starts[#gone_starts + 1] = starts[i]
    if high < 0 then
      short = short + 1
    end
  end
end

local lost, loss = KEYS[7], nil
if depth == n and missing_numbers(known, n) then
  redis.call('LLEN', lost)
  local lost_first, lost_last, present =
    missing_numbers(known, n, number_of(redis.call('LINDEX', queue, 0)), number_of(last))
  local left, taken = pending_by_kind(), {}
  for i, scope in ipairs(scopes) do
    add_by_kind(taken, scope, parse(owed[i][1]))
  end
  if left then
    take_by_kind(left, taken)
  end
  loss = loss_line(lost_first, lost_last, present, 'ack', left)
end

if loss then
  redis.call('RPUSH', lost, loss)
end
redis.call('LTRIM', queue, n, -1)
depth = depth - n
if depth == 0 then
  -- nothing is pending: the index is gone, and with it whatever was wrong with it
  redis.call('DEL', hot, count, since, amounts)
  redis.call('HDEL', state, 'doubt', 'scopes', 'starts')
  if known[2] then
    redis.call('HSET', state, 'head', known[2])
  end
  return { 1, 0, short }
end
write_fields(hot, hot_pairs)
write_fields(count, count_pairs)
remove_fields(hot, gone)
remove_fields(count, gone)
write_fields(amounts, amount_pairs)
remove_fields(amounts, gone_starts)
remove_members(since, gone_starts)
redis.call('HSET', state, 'scopes', redis.call('HLEN', hot), 'starts', redis.call('ZCARD', since))
if known[1] then
  redis.call('HSET', state, 'head', string.format('%.0f', tonumber(known[1]) + n))
end
if foreign then
  redis.call('HSET', state, 'doubt', 'foreign')
elseif short > 0 then
  redis.call('HSET', state, 'doubt', 'short')
elseif not whole then
  redis.call('HSET', state, 'doubt', 'index')
end
return { 1, depth, short }
