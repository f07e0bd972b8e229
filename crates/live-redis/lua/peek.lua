#!lua flags=no-writes
-- Reads the head of the queue; takes nothing.
--
-- KEYS[1]  list: the queue, oldest first
-- ARGV[1]  most entries, 1 to 10000
-- ARGV[2]  most bytes; the first entry is returned whatever its size
--
-- Returns {length of the whole queue, entry, entry, ...}.

local most, budget = tonumber(ARGV[1]), tonumber(ARGV[2])
local reply = { redis.call('LLEN', KEYS[1]) }
-- in pieces, so that a batch of large entries is not copied whole before the budget cuts it
for from = 0, most - 1, 100 do
  local piece = redis.call('LRANGE', KEYS[1], from, math.min(from + 99, most - 1))
  for _, entry in ipairs(piece) do
    budget = budget - #entry
    if budget < 0 and #reply > 1 then
      return reply
    end
    reply[#reply + 1] = entry
  end
  if #piece < 100 then
    break
  end
end
return reply
