#!lua flags=allow-oom
-- What is pending for each of several queries, exactly and all at one instant. A query is a scope: all that is pending for
-- it. With an instant it is an organization, and asks for what events charge to it that started then or later or that do not
-- say when they did: everything, less what started before.
--
-- The index is proven once, or the entries are gone through once, however many queries there are.
--
-- KEYS[1 .. 6]  as parts/index.lua has them
-- ARGV[1]  most entries to go through when the index is in doubt
-- ARGV[2]  most starts before an instant that are read for one query. They are counted first, in O(log n); reading costs
--          about 1.3 us each, so 512 hold the server up for 0.7 ms.
-- ARGV[3]  number of queries n, 1 to 512: one command names all their scopes, and Lua's stack holds 8,000 values
-- ARGV[4 .. n + 3]  the scope ref of each
-- ARGV[n + 4 ..]  for each that has an instant: its number (1 to n), the organization's first place in the index by time,
--                 its place at the instant, the instant (milliseconds since 1970)
--
-- Returns {entries that were gone through: 0 when the index was proven, {picodollars in decimal for each query}}.
-- Errors, for all queries at once: DAMAGED a counter that a query needs is not what these scripts write, or the index is in
-- doubt and an entry cannot be read; UNPROVEN the index is in doubt and the queue is longer than ARGV[1],
-- or an organization has more starts before an instant than ARGV[2].

local n, starts_bound = tonumber(ARGV[3]), tonumber(ARGV[2])

-- what the entries themselves say
local function pending_by_entries(depth, bound)
  if depth > bound then
    return redis.error_reply('UNPROVEN the index is in doubt, and the queue has ' .. depth .. ' entries; at most '
      .. bound .. ' are gone through')
  end
  local queries_of, high, low, instants = {}, {}, {}, {}
  for query = 1, n do
    local scope = ARGV[query + 3]
    queries_of[scope] = queries_of[scope] or {}
    table.insert(queries_of[scope], query)
    high[query], low[query] = 0, 0
  end
  for i = n + 4, #ARGV, 4 do
    instants[tonumber(ARGV[i])] = tonumber(ARGV[i + 3])
  end
  local foreign
  each_entry(depth, function(position, raw)
    local scopes, amount, start
    if read_link(raw) then
      scopes, amount, start = read_event(raw)
    end
    if not scopes then
      foreign = position
      return false
    end
    for _, charged in ipairs(amount and scopes or {}) do
      for _, query in ipairs(queries_of[charged] or {}) do
        local instant = instants[query]
        if not (instant and start and start < instant) then
          high[query], low[query] = plus(high[query], low[query], parse(amount))
        end
      end
    end
    return true
  end)
  if foreign then
    return redis.error_reply('DAMAGED the index is in doubt, and entry ' .. foreign .. ' of the queue cannot be read')
  end
  local pending = {}
  for query = 1, n do
    pending[query] = decimal(high[query], low[query])
  end
  return { depth, pending }
end

local depth = redis.call('LLEN', queue)
if not proven(depth, read_state()) then
  return pending_by_entries(depth, tonumber(ARGV[1]))
end
local pending = {}
if depth == 0 then
  for query = 1, n do
    pending[query] = '0'
  end
  return { 0, pending }
end
local charged = redis.call('HMGET', hot, unpack(ARGV, 4, n + 3))
local events = redis.call('HMGET', count, unpack(ARGV, 4, n + 3))
for query = 1, n do
  local amount, paid = charged[query], events[query]
  if not amount and not paid then
    amount = '0'
  elseif not amount or not paid or not is_amount(amount) or not is_count(paid, 15) then
    return redis.error_reply('DAMAGED pending spend of ' .. ARGV[query + 3]
      .. ' is not a positive amount with a positive count')
  end
  pending[query] = amount
end
for i = n + 4, #ARGV, 4 do
  local query = tonumber(ARGV[i])
  local starts = redis.call('ZLEXCOUNT', since, '[' .. ARGV[i + 1], '(' .. ARGV[i + 2])
  if starts > starts_bound then
    return redis.error_reply('UNPROVEN ' .. ARGV[query + 3] .. ' has ' .. starts .. ' pending starts before the instant, and at most '
      .. starts_bound .. ' are read; settling what is older helps')
  end
  local older = starts == 0 and {} or redis.call('ZRANGEBYLEX', since, '[' .. ARGV[i + 1], '(' .. ARGV[i + 2])
  if #older > 0 then
    local high, low = parse(pending[query])
    for _, before in ipairs(read_fields(amounts, older)) do
      if not before or not is_amount(before) then
        return redis.error_reply('DAMAGED pending spend of ' .. ARGV[query + 3]
          .. ' at one start is not a positive integer')
      end
      high, low = minus(high, low, parse(before))
      if high < 0 then
        return redis.error_reply('DAMAGED pending spend of ' .. ARGV[query + 3]
          .. ' is less than that of its past starts')
      end
    end
    pending[query] = decimal(high, low)
  end
end
return { 0, pending }
