-- Part of other scripts: whether the index of pending spend is proven to match the list.
--
-- Keys in KEYS[1] to KEYS[6]: queue (list), state (hash), hot, count (hashes), since (sorted set), since:amount (hash).
-- It is, when the list is empty (nothing is pending then), or when
--   the list has next - head entries, its first one has the number head, its last one the number next - 1 and the link
--   chain,
--   the counters and the index by time are as many as were last written,
--   and no script has seen otherwise (doubt).

local queue, state, hot, count, since, amounts = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]

-- head, next, chain, doubt, scopes, starts, shards
local function read_state()
  return redis.call('HMGET', state, 'head', 'next', 'chain', 'doubt', 'scopes', 'starts', 'shards')
end

-- reads the sizes of all four parts of the index, which also makes sure of their types
local function sizes_as_written(known)
  local scopes, counts = redis.call('HLEN', hot), redis.call('HLEN', count)
  local starts, places = redis.call('HLEN', amounts), redis.call('ZCARD', since)
  return scopes == counts and starts == places and scopes == tonumber(known[5] or '0')
    and starts == tonumber(known[6] or '0')
end

local function is_tail(known, entry)
  local last = entry and known[2] and known[3] and tonumber(known[2])
  if not last then
    return false
  end
  local link = string.format('{"seq":%.0f,"chain":"%s",', last - 1, known[3])
  return string.sub(entry, 1, #link) == link
end

local function proven(depth, known)
  local whole = sizes_as_written(known)
  if depth == 0 then
    return true
  end
  if known[4] or not whole or not known[1] or not is_tail(known, redis.call('LINDEX', queue, -1)) then
    return false
  end
  local head = '{"seq":' .. known[1] .. ','
  return tonumber(known[2]) - (tonumber(known[1]) or -1) == depth
    and string.sub(redis.call('LINDEX', queue, 0), 1, #head) == head
end
