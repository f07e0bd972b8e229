#!lua
-- Appends spend events in order, remembers their request ids, and charges their scopes: each event wholly or not at all.
--
-- KEYS[1]  list: the queue, oldest first
-- KEYS[2]  hash: queue state (head, next, chain, format, shards, scopes, starts, doubt)
-- KEYS[3]  hash: scope ref -> pending picodollars
-- KEYS[4]  hash: scope ref -> pending paid events
-- KEYS[5]  sorted set, all scores 0: organization and start millisecond of pending events
-- KEYS[6]  hash: the same -> pending picodollars
-- KEYS[7 ..] for each event: its bucket of remembered request ids (hash, digest -> payload check); where ids are not
--          remembered for ever, the bucket of this generation and those of the one before and the one behind
-- ARGV[1]  shard count of the caller
-- ARGV[2]  buckets an event, 1 or 3
-- ARGV[3]  milliseconds that a bucket is kept after its last event; 0 for ever
-- ARGV[4 ..] for each event: digest of the request id within the bucket; payload check (4 bytes); millisecond at which it
--          was made ready; picodollars to charge to each scope (decimal, 0 to 2^63-1); number of scopes to charge; number
--          of places in the index by time; event JSON of entry format 2 without its opening brace; the scopes; the places
--
-- Returns one list an event: {0, sequence number, length} appended; {1} the same payload was queued before under this
-- request id; {2} another payload was; {3, scope} its counter would pass 2^63-1; {4, text} what it needs is not what
-- these scripts write. An event that is not appended changes nothing, and the others go on.
-- Errors (nothing written): SHARDS another shard count is in force; DAMAGED a value is not what these scripts write.
-- Writes in the order of what their loss would cost: the events, the memory of their ids, the counters, the state.

local shards, buckets, kept_ms = ARGV[1], tonumber(ARGV[2]), ARGV[3]

local depth = redis.call('LLEN', queue)
local known = read_state()
local whole = sizes_as_written(known)
if known[7] and known[7] ~= shards then
  return redis.error_reply('SHARDS the queue has ' .. known[7] .. ' shards, this client was set up for ' .. shards)
end
if (known[2] == false) ~= (known[3] == false) then
  return redis.error_reply('DAMAGED queue state has next or chain, not both')
end
if known[2] and not is_count(known[2], 15) then
  return redis.error_reply('DAMAGED queue state: next is not a sequence number')
end
if known[3] and (#known[3] ~= 40 or string.find(known[3], '[^0-9a-f]')) then
  return redis.error_reply('DAMAGED queue state: chain is not a SHA-1')
end
local first = tonumber(known[2] or '1')
local seq, chain = first, known[3] or string.rep('0', 40)

-- what is asked for, and the name of every counter that it touches
local events, scopes, starts, named = {}, {}, {}, {}
local function name(list, text)
  if not named[text] then
    named[text] = {}
    list[#list + 1] = text
  end
end
local at, key = 4, 7
while at <= #ARGV do
  local charged, placed = tonumber(ARGV[at + 4]), tonumber(ARGV[at + 5])
  events[#events + 1] = { at = at, key = key, scopes = at + 7, starts = at + 7 + charged, past = at + 7 + charged + placed }
  for i = at + 7, at + 6 + charged do
    name(scopes, ARGV[i])
  end
  for i = at + 7 + charged, at + 6 + charged + placed do
    name(starts, ARGV[i])
  end
  at, key = at + 7 + charged + placed, key + buckets
end

-- what they hold; in an empty queue nothing is pending, whatever a foreign hand left behind
local pending, paid, placed = {}, {}, {}
if depth > 0 then
  pending, paid, placed = read_fields(hot, scopes), read_fields(count, scopes), read_fields(amounts, starts)
end
for i, scope in ipairs(scopes) do
  local amount, number, counter = pending[i] or false, paid[i] or false, named[scope]
  if (amount == false) ~= (number == false) or (amount and not (is_amount(amount) and is_count(number, 15))) then
    counter.bad = 'pending spend of ' .. scope .. ' is not a positive amount with a positive count'
  elseif amount then
    counter.high, counter.low = parse(amount)
    counter.count = tonumber(number)
  else
    counter.high, counter.low, counter.count = 0, 0, 0
  end
end
for i, start in ipairs(starts) do
  local amount, place = placed[i] or false, named[start]
  if amount and not is_amount(amount) then
    place.bad = 'pending spend of one organization and start is not a positive amount'
  else
    place.high, place.low = parse(amount or '0')
  end
end

-- the first of: known, damaged, full
local function refusal(event, marks)
  for bucket = event.key, event.key + buckets - 1 do
    local check = marks[KEYS[bucket] .. '\0' .. ARGV[event.at]] or redis.pcall('HGET', KEYS[bucket], ARGV[event.at])
    if type(check) == 'table' then
      return { 4, 'a bucket of remembered request ids is of another type' }
    end
    if check and #check ~= 4 then
      return { 4, 'payload check of a remembered request id has ' .. #check .. ' bytes, not 4' }
    end
    if check then
      return { check == ARGV[event.at + 1] and 1 or 2 }
    end
  end
  local high, low = parse(ARGV[event.at + 3])
  for i = event.scopes, event.past - 1 do
    local counter = named[ARGV[i]]
    if counter.bad then
      return { 4, counter.bad }
    end
    if not fits(plus(counter.high, counter.low, high, low)) then
      return { 3, ARGV[i] }
    end
  end
  return nil
end

local replies, entries, accepted, marks = {}, {}, {}, {}
for number, event in ipairs(events) do
  local reply = refusal(event, marks)
  if not reply then
    local high, low = parse(ARGV[event.at + 3])
    for i = event.scopes, event.past - 1 do
      local counter = named[ARGV[i]]
      counter.high, counter.low = plus(counter.high, counter.low, high, low)
      counter.count, counter.moved = (counter.count or 0) + 1, true
    end
    local text = string.format('%.0f', seq)
    chain = redis.sha1hex(chain .. text .. ',' .. ARGV[event.at + 2] .. ',' .. ARGV[event.at + 6])
    entries[#entries + 1] = '{"seq":' .. text .. ',"chain":"' .. chain .. '","queued":' .. ARGV[event.at + 2] .. ','
      .. ARGV[event.at + 6]
    accepted[#accepted + 1] = event
    marks[KEYS[event.key] .. '\0' .. ARGV[event.at]] = ARGV[event.at + 1]
    reply = { 0, seq, depth + #entries }
    seq = seq + 1
  end
  replies[number] = reply
end
if #entries == 0 then
  return replies
end
local doubt = depth > 0 and (not whole or not is_tail(known, redis.call('LINDEX', queue, -1)))
local hot_pairs, count_pairs, member_pairs, amount_pairs = {}, {}, {}, {}
for _, scope in ipairs(scopes) do
  local counter = named[scope]
  if counter.moved then
    hot_pairs[#hot_pairs + 1], hot_pairs[#hot_pairs + 2] = scope, decimal(counter.high, counter.low)
    count_pairs[#count_pairs + 1], count_pairs[#count_pairs + 2] = scope, string.format('%.0f', counter.count)
  end
end
for _, start in ipairs(starts) do
  local place = named[start]
  if place.moved then
    member_pairs[#member_pairs + 1], member_pairs[#member_pairs + 2] = '0', start
    amount_pairs[#amount_pairs + 1], amount_pairs[#amount_pairs + 2] = start, decimal(place.high, place.low)
  end
end

redis.call('RPUSH', queue, unpack(entries))
for _, event in ipairs(accepted) do
  redis.call('HSET', KEYS[event.key], ARGV[event.at], ARGV[event.at + 1])
  if kept_ms ~= '0' then
    redis.call('PEXPIRE', KEYS[event.key], kept_ms)
  end
end
if depth == 0 then
  redis.call('DEL', hot, count, since, amounts)
  redis.call('HDEL', state, 'doubt')
  redis.call('HSET', state, 'head', string.format('%.0f', first))
end
write_fields(hot, hot_pairs)
write_fields(count, count_pairs)
write_members(since, member_pairs)
write_fields(amounts, amount_pairs)
redis.call('HSET', state, 'next', string.format('%.0f', seq), 'chain', chain, 'format', '2', 'shards', shards, 'scopes',
  redis.call('HLEN', hot), 'starts', redis.call('ZCARD', since))
if doubt then
  redis.call('HSET', state, 'doubt', 'foreign')
end
return replies
