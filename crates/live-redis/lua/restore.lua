#!lua
-- Puts what was moved aside back to the head of the queue, if it is still the one that was looked at.
--
-- KEYS[1 .. 6]  as parts/index.lua has them
-- KEYS[7]  list: what was moved aside, each as a line of JSON (why and when) and the raw entry behind it
-- ARGV[1]  its place in that list, 0 for the oldest
-- ARGV[2]  the whole item that was looked at, byte for byte
--
-- Returns {1, entries of the queue}, or {0, entries} when the item is another one (nothing changed).
-- The index is in doubt from then on.

local depth = redis.call('LLEN', queue)
local known = read_state()
local place = tonumber(ARGV[1])
if redis.call('LINDEX', KEYS[7], place) ~= ARGV[2] then
  return { 0, depth }
end
local entry = string.sub(ARGV[2], (string.find(ARGV[2], '\n', 1, true) or 0) + 1)
redis.call('LPUSH', queue, entry)
redis.call('HSET', state, 'doubt', 'quarantine')
local number = string.match(entry, '^{"seq":([1-9]%d*),')
if number and #number <= 15 and known[1] and known[1] == string.format('%.0f', tonumber(number) + 1) then
  redis.call('HSET', state, 'head', number)
end
-- a list cannot drop a place: the item is made unlike any other first
redis.call('LSET', KEYS[7], place, '')
redis.call('LREM', KEYS[7], 1, '')
return { 1, depth + 1 }
