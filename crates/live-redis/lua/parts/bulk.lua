-- Part of other scripts: commands with many arguments, in pieces that Lua's stack holds.

local PIECE = 1000

-- the fields that names[first] to names[last] name; all names unless said
local function read_fields(key, names, first, last)
  first, last = first or 1, last or #names
  if first <= last and last < first + PIECE then
    return redis.call('HMGET', key, unpack(names, first, last))
  end
  local values = {}
  for from = first, last, PIECE do
    local piece = redis.call('HMGET', key, unpack(names, from, math.min(from + PIECE - 1, last)))
    for i = 1, #piece do
      values[#values + 1] = piece[i]
    end
  end
  return values
end

-- fields and values in turn
local function write_fields(key, pairs)
  for from = 1, #pairs, PIECE do
    redis.call('HSET', key, unpack(pairs, from, math.min(from + PIECE - 1, #pairs)))
  end
end

-- scores and members in turn
local function write_members(key, pairs)
  for from = 1, #pairs, PIECE do
    redis.call('ZADD', key, unpack(pairs, from, math.min(from + PIECE - 1, #pairs)))
  end
end
