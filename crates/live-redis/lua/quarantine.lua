#!lua
-- Moves the head of the queue aside, if it is still the one that was looked at; nothing is lost.
--
-- KEYS[1 .. 6]  as parts/index.lua has them
-- KEYS[7]  list: what was moved aside, each as a line of JSON (seq, where it can be told, then why and when) and the raw entry
--          behind it
-- KEYS[8]  list: recorded losses (parts/lost.lua)
-- ARGV[1]  the head that was looked at, byte for byte
-- ARGV[2]  the line of JSON, an object that is not empty, without seq
--
-- Returns {1, entries left}, or {0, entries} when the head is another one (nothing changed).
-- The index is in doubt from then on, since nobody can say what an entry that cannot be read was charged with.

local depth = redis.call('LLEN', queue)
local known = read_state()
redis.call('LLEN', KEYS[7])
if redis.call('LINDEX', queue, 0) ~= ARGV[1] then
  return { 0, depth }
end
local number, lost, loss = number_of(ARGV[1]), KEYS[8], nil
if depth == 1 and missing_numbers(known, 1) then
  local lost_first, lost_last, present = missing_numbers(known, 1, number, number)
  redis.call('LLEN', lost)
  -- what the entry itself was charged with cannot be told from the rest
  loss = loss_line(lost_first, lost_last, present, 'quarantine', nil)
end
-- the number of what is moved aside is accounted for, where the list has no more than the state names
local head = known[1] and known[2] and is_count(known[1], 15) and is_count(known[2], 15) and tonumber(known[1])
if head and tonumber(known[2]) - head < depth then
  head = nil
end
-- an entry that cannot be read has the number that the state names, where nothing but the list's own entries has numbers
if not number and head and tonumber(known[2]) - head == depth then
  number = head
end
local line = ARGV[2]
if number then
  line = string.format('{"seq":%.0f,', number) .. string.sub(line, 2)
end

if loss then
  redis.call('RPUSH', lost, loss)
end
redis.call('RPUSH', KEYS[7], line .. '\n' .. ARGV[1])
redis.call('LPOP', queue)
if depth > 1 then
  redis.call('HSET', state, 'doubt', 'quarantine')
  if head then
    redis.call('HSET', state, 'head', string.format('%.0f', head + 1))
  end
  return { 1, depth - 1 }
end
redis.call('DEL', hot, count, since, amounts)
redis.call('HDEL', state, 'doubt', 'scopes', 'starts')
if known[2] then
  redis.call('HSET', state, 'head', known[2])
end
return { 1, 0 }
