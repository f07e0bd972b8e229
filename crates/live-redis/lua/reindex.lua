#!lua
-- Makes the index of pending spend anew from the entries, all of them or nothing.
--
-- KEYS[1 .. 6]  as parts/index.lua has them
-- KEYS[7]  list: recorded losses (parts/lost.lua)
-- ARGV[1]  most entries to go through
-- ARGV[2]  1 to make it anew although it is proven: single counters are not part of the proof
--
-- Returns {0, entries} made anew; {1} proven already, nothing changed; {2, position} the entry there (0: the head) cannot
-- be read or does not follow from the one before it, nothing changed; {3, length} the queue is too long, nothing changed.
-- Numbers that the state names and the list does not have are recorded as lost before the state is set by the list.

local depth = redis.call('LLEN', queue)
-- the parts of the index may be of any type: they are replaced
local types = { redis.pcall('HLEN', hot), redis.pcall('HLEN', count), redis.pcall('ZCARD', since), redis.pcall('HLEN', amounts) }
local sound = true
for _, size in ipairs(types) do
  sound = sound and type(size) == 'number'
end
local known = read_state()
if ARGV[2] ~= '1' and sound and proven(depth, known) then
  return { 1 }
end
if depth > tonumber(ARGV[1]) then
  return { 3, depth }
end

local charged, counts, placed = {}, {}, {}
local function add(sums, name, amount)
  local sum = sums[name] or { 0, 0 }
  sums[name] = { plus(sum[1], sum[2], parse(amount)) }
end
local blocked, head, seq_before, chain_before = nil, nil, nil, nil
each_entry(depth, function(position, raw)
  local seq, chain, queued, body = read_link(raw)
  local scopes, amount, start
  if seq and (not seq_before or (tonumber(seq) == tonumber(seq_before) + 1
    and chain == redis.sha1hex(chain_before .. seq .. ',' .. queued .. ',' .. body))) then
    scopes, amount, start = read_event(raw)
  end
  if not scopes then
    blocked = position
    return false
  end
  for _, scope in ipairs(amount and scopes or {}) do
    add(charged, scope, amount)
    counts[scope] = (counts[scope] or 0) + 1
    local organization = start and string.match(scope, '^organization/(.*)$')
    if organization then
      add(placed, string.format('%s\31%015.0f', organization, start), amount)
    end
  end
  head, seq_before, chain_before = head or seq, seq, chain
  return true
end)
if blocked then
  return { 2, blocked }
end

local hot_pairs, count_pairs, member_pairs, amount_pairs = {}, {}, {}, {}
for scope, sum in pairs(charged) do
  if not fits(sum[1], sum[2]) then
    return redis.error_reply('FULL pending spend of ' .. scope .. ' is more than one counter holds')
  end
  hot_pairs[#hot_pairs + 1], hot_pairs[#hot_pairs + 2] = scope, decimal(sum[1], sum[2])
  count_pairs[#count_pairs + 1], count_pairs[#count_pairs + 2] = scope, string.format('%.0f', counts[scope])
end
for place, sum in pairs(placed) do
  member_pairs[#member_pairs + 1], member_pairs[#member_pairs + 2] = '0', place
  amount_pairs[#amount_pairs + 1], amount_pairs[#amount_pairs + 2] = place, decimal(sum[1], sum[2])
end
local lost, loss = KEYS[7], nil
local lost_first, lost_last, present = missing_numbers(known, depth, tonumber(head), tonumber(seq_before))
if lost_first then
  redis.call('LLEN', lost)
  local left, taken = pending_by_kind(), {}
  for scope, sum in pairs(charged) do
    add_by_kind(taken, scope, sum[1], sum[2])
  end
  if left then
    take_by_kind(left, taken)
  end
  loss = loss_line(lost_first, lost_last, present, 'reindex', left)
end

if loss then
  redis.call('RPUSH', lost, loss)
end
redis.call('DEL', hot, count, since, amounts)
write_fields(hot, hot_pairs)
write_fields(count, count_pairs)
write_members(since, member_pairs)
write_fields(amounts, amount_pairs)
if head then
  redis.call('HSET', state, 'head', head, 'next', string.format('%.0f', tonumber(seq_before) + 1), 'chain', chain_before,
    'format', '2', 'scopes', #hot_pairs / 2, 'starts', #amount_pairs / 2)
elseif loss then
  redis.call('HSET', state, 'head', known[2])
end
redis.call('HDEL', state, 'doubt')
return { 0, depth }
