#!lua flags=allow-oom
-- Reads the head of the queue; takes nothing.
--
-- KEYS[1 .. 6]  as parts/index.lua has them; KEYS[1] alone for a list that has no index
-- ARGV[1]  most entries, 1 to 10000
-- ARGV[2]  most bytes; the first entry is returned whatever its size
--
-- Returns {length of the whole queue, 1 when the index is proven else 0, entry, entry, ...}.

local most, budget = tonumber(ARGV[1]), tonumber(ARGV[2])
local depth = redis.call('LLEN', queue)
if depth == 0 then
  -- what a flusher asks all day: one look at the list answers it
  return { 0, 1 }
end
local reply = { depth, (#KEYS == 1 or proven(depth, read_state())) and 1 or 0 }
-- in pieces, so that a batch of large entries is not copied whole before the budget cuts it
for from = 0, most - 1, 100 do
  local piece = redis.call('LRANGE', queue, from, math.min(from + 99, most - 1))
  for _, entry in ipairs(piece) do
    budget = budget - #entry
    if budget < 0 and #reply > 2 then
      return reply
    end
    reply[#reply + 1] = entry
  end
  if #piece < 100 then
    break
  end
end
return reply
