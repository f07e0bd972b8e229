#!lua
-- Appends spend events in order, remembers their request ids, and charges their scopes: each event wholly or not at all.
--
-- KEYS[1]  list: the queue, oldest first
-- KEYS[2]  hash: queue state (head, next, chain, format, shards, scopes, starts, doubt; of the callers' settings:
--          settings, settings_since, settings_before)
-- KEYS[3]  hash: scope ref -> pending picodollars
-- KEYS[4]  hash: scope ref -> pending paid events
-- KEYS[5]  sorted set, all scores 0: organization and start millisecond of pending events
-- KEYS[6]  hash: the same -> pending picodollars
-- KEYS[7]  list: recorded losses (parts/lost.lua)
-- KEYS[8 ..] for each event: its bucket of remembered request ids (hash, digest -> payload check); where ids are not
--          remembered for ever, the bucket of this generation and those of the one before and the one behind
-- ARGV[1]  shard count of the caller
-- ARGV[2]  buckets an event, 1 or 3
-- ARGV[3]  milliseconds that a bucket is kept after its last event; 0 for ever
-- ARGV[4]  the caller's settings in which all callers must agree, as text
-- ARGV[5]  number of scopes that the events charge
-- ARGV[6]  number of places in the index by time that they charge
-- ARGV[7 ..] those scopes, then those places, none twice
-- ARGV[.. ] for each event: digest of the request id within the bucket; payload check (4 bytes); millisecond at which it
--          was made ready; picodollars to charge (decimal, 0 to 2^63-1); what to charge them to, two bytes each, most
--          significant first: its number in the list above, from 1; event JSON of entry format 2 without its opening brace
--
-- Returns one list an event: {0, sequence number, length} appended; {1} the same payload was queued before under this
-- request id; {2} another payload was; {3, scope} its counter would pass 2^63-1; {4, text} what it needs is not what
-- these scripts write. An event that is not appended changes nothing, and the others go on.
-- Errors (nothing written): SHARDS another shard count is in force; DAMAGED a value is not what these scripts write.
-- An empty list whose state names entries lost them: that is recorded before the state is set anew.
-- Settings of another caller are replaced, and kept as settings_before, with the millisecond: they are for the doctor.
-- Writes in the order of what their loss would cost: the record of a loss, the events, the memory of their ids, the counters,
-- the state.

local shards, buckets, kept_ms, settings = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local last_scope = 6 + tonumber(ARGV[5])
local last_place = last_scope + tonumber(ARGV[6])

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

-- what every counter holds, by its place in ARGV; in an empty queue nothing is pending, whatever a foreign hand left behind
local high, low, paid, bad = {}, {}, {}, {}
local amounts_of_scopes, counts_of_scopes, amounts_of_places = {}, {}, {}
if depth > 0 then
  amounts_of_scopes, counts_of_scopes = read_fields(hot, ARGV, 7, last_scope), read_fields(count, ARGV, 7, last_scope)
  amounts_of_places = read_fields(amounts, ARGV, last_scope + 1, last_place)
end
for i = 7, last_scope do
  local amount, number = amounts_of_scopes[i - 6], counts_of_scopes[i - 6]
  if not amount and not number then
    high[i], low[i], paid[i] = 0, 0, 0
  elseif amount and number and is_amount(amount) and is_count(number, 15) then
    high[i], low[i] = parse(amount)
    paid[i] = tonumber(number)
  else
    bad[i] = 'pending spend of ' .. ARGV[i] .. ' is not a positive amount with a positive count'
  end
end
for i = last_scope + 1, last_place do
  local amount = amounts_of_places[i - last_scope]
  if not amount then
    high[i], low[i], paid[i] = 0, 0, 0
  elseif is_amount(amount) then
    high[i], low[i] = parse(amount)
    paid[i] = 0
  else
    bad[i] = 'pending spend of one organization and start is not a positive amount'
  end
end

-- the payload check that is remembered under an event's request id, or why that cannot be told
local accepted_checks = {}
local function remembered(at, key)
  local check = accepted_checks[ARGV[at]]
  for bucket = key, key + buckets - 1 do
    check = check or redis.pcall('HGET', KEYS[bucket], ARGV[at])
  end
  if type(check) == 'table' then
    return nil, 'a bucket of remembered request ids is of another type'
  end
  if check and #check ~= 4 then
    return nil, 'payload check of a remembered request id has ' .. #check .. ' bytes, not 4'
  end
  return check
end

-- the first of: known, damaged, full
local function refusal(at, key, charged, more_high, more_low)
  local check, damage = remembered(at, key)
  if damage then
    return { 4, damage }
  end
  if check then
    return { check == ARGV[at + 1] and 1 or 2 }
  end
  for j = 1, #charged, 2 do
    local i = charged[j] * 256 + charged[j + 1] + 6
    if bad[i] then
      return { 4, bad[i] }
    end
    if not fits(plus(high[i], low[i], more_high, more_low)) then
      return { 3, ARGV[i] }
    end
  end
  return nil
end

local replies, entries, accepted, moved = {}, {}, {}, {}
local key = 8
for at = last_place + 1, #ARGV, 6 do
  local charged = { string.byte(ARGV[at + 4], 1, -1) }
  local more_high, more_low = parse(ARGV[at + 3])
  local reply = refusal(at, key, charged, more_high, more_low)
  if not reply then
    for j = 1, #charged, 2 do
      local i = charged[j] * 256 + charged[j + 1] + 6
      high[i], low[i] = plus(high[i], low[i], more_high, more_low)
      paid[i], moved[i] = paid[i] + 1, true
    end
    local text, queued, body = string.format('%d', seq), ARGV[at + 2], ARGV[at + 5]
    chain = redis.sha1hex(chain .. text .. ',' .. queued .. ',' .. body)
    entries[#entries + 1] = '{"seq":' .. text .. ',"chain":"' .. chain .. '","queued":' .. queued .. ',' .. body
    accepted[#accepted + 1] = { at, key }
    accepted_checks[ARGV[at]] = ARGV[at + 1]
    reply = { 0, seq, depth + #entries }
    seq = seq + 1
  end
  replies[#replies + 1] = reply
  key = key + buckets
end
if #entries == 0 then
  return replies
end
local doubt = depth > 0 and (not whole or not is_tail(known, redis.call('LINDEX', queue, -1)))
local hot_pairs, count_pairs, member_pairs, amount_pairs = {}, {}, {}, {}
for i = 7, last_scope do
  if moved[i] then
    local n = #hot_pairs
    hot_pairs[n + 1], hot_pairs[n + 2] = ARGV[i], decimal(high[i], low[i])
    count_pairs[n + 1], count_pairs[n + 2] = ARGV[i], string.format('%d', paid[i])
  end
end
for i = last_scope + 1, last_place do
  if moved[i] then
    local n = #member_pairs
    member_pairs[n + 1], member_pairs[n + 2] = '0', ARGV[i]
    amount_pairs[n + 1], amount_pairs[n + 2] = ARGV[i], decimal(high[i], low[i])
  end
end

local lost, loss = KEYS[7], nil
if depth == 0 and missing_numbers(known, 0) then
  local lost_first, lost_last, present = missing_numbers(known, 0)
  redis.call('LLEN', lost)
  loss = loss_line(lost_first, lost_last, present, 'enqueue', pending_by_kind())
end

if loss then
  redis.call('RPUSH', lost, loss)
end
redis.call('RPUSH', queue, unpack(entries))
for i = 1, #accepted do
  local at, bucket = accepted[i][1], KEYS[accepted[i][2]]
  redis.call('HSET', bucket, ARGV[at], ARGV[at + 1])
  if kept_ms ~= '0' then
    redis.call('PEXPIRE', bucket, kept_ms)
  end
end
if depth == 0 then
  redis.call('DEL', hot, count, since, amounts)
  redis.call('HDEL', state, 'doubt')
end
if depth == 0 or not known[2] then
  -- also where another hand was first: what it put there has no number of this queue
  redis.call('HSET', state, 'head', string.format('%d', first))
end
write_fields(hot, hot_pairs)
write_fields(count, count_pairs)
write_members(since, member_pairs)
write_fields(amounts, amount_pairs)
redis.call('HSET', state, 'next', string.format('%d', seq), 'chain', chain, 'format', '2', 'shards', shards, 'scopes',
  redis.call('HLEN', hot), 'starts', redis.call('ZCARD', since))
if known[8] ~= settings then
  redis.call('HSET', state, 'settings', settings, 'settings_since', ARGV[accepted[1][1] + 2])
  if known[8] then
    redis.call('HSET', state, 'settings_before', known[8])
  end
end
if doubt then
  redis.call('HSET', state, 'doubt', 'foreign')
end
return replies
