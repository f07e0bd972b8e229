-- Part of other scripts: whether the index of pending spend is proven to match the list.
--
-- Keys in KEYS[1] to KEYS[6]: queue (list), state (hash), hot, count (hashes), since (sorted set), since:amount (hash).
-- It is, when the list is empty (nothing is pending then), or when
--   the list has next - head entries, its first one has the number head, its last one the number next - 1 and the link
--   chain,
--   the counters and the index by time are as many as were last written, and of the types that these scripts write,
--   and no script has seen otherwise (doubt).

local queue, state, hot, count, since, amounts = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]

-- head, next, chain, doubt, scopes, starts, shards, settings
local function read_state()
  return redis.call('HMGET', state, 'head', 'next', 'chain', 'doubt', 'scopes', 'starts', 'shards', 'settings')
end

local function as_written(known, scopes, counts, starts, places)
  return scopes == counts and starts == places and scopes == tonumber(known[5] or '0')
    and starts == tonumber(known[6] or '0')
end

-- reads the sizes of all four parts of the index; an error when one is of another type, so that a write to it cannot fail
local function sizes_as_written(known)
  return as_written(known, redis.call('HLEN', hot), redis.call('HLEN', count), redis.call('HLEN', amounts),
    redis.call('ZCARD', since))
end

-- the size of a part of the index; nil when it is of another type
local function size(command, key)
  local length = redis.pcall(command, key)
  if type(length) == 'number' then
    return length
  end
  if not string.find(length.err, 'WRONGTYPE', 1, true) then
    -- no damage, but a refusal such as one for lack of rights: the caller learns it
    return redis.call(command, key)
  end
  return nil
end

local function is_tail(known, entry)
  local last = known[2] and #known[2] <= 15 and string.find(known[2], '^[1-9]%d*$') and tonumber(known[2])
  if not last or not known[3] or not entry then
    return false
  end
  local link = '{"seq":' .. string.format('%.0f', last - 1) .. ',"chain":"' .. known[3] .. '",'
  return string.sub(entry, 1, #link) == link
end

-- for reads: a part of another type is a doubt, and no error
local function proven(depth, known)
  if depth == 0 then
    return true
  end
  local scopes, counts = size('HLEN', hot), size('HLEN', count)
  local starts, places = size('HLEN', amounts), size('ZCARD', since)
  if not (scopes and counts and starts and places) or not as_written(known, scopes, counts, starts, places) then
    return false
  end
  if known[4] or not known[1] or not is_tail(known, redis.call('LINDEX', queue, -1)) then
    return false
  end
  -- members are in the order of their text only while all have one score
  if redis.call('ZCOUNT', since, 0, 0) ~= starts then
    return false
  end
  local head = '{"seq":' .. known[1] .. ','
  return tonumber(known[2]) - (tonumber(known[1]) or -1) == depth
    and string.sub(redis.call('LINDEX', queue, 0), 1, #head) == head
end
