-- Part of other scripts: removals with many arguments, in pieces that Lua's stack holds.

local function remove_fields(key, names)
  for from = 1, #names, PIECE do
    redis.call('HDEL', key, unpack(names, from, math.min(from + PIECE - 1, #names)))
  end
end

local function remove_members(key, names)
  for from = 1, #names, PIECE do
    redis.call('ZREM', key, unpack(names, from, math.min(from + PIECE - 1, #names)))
  end
end
