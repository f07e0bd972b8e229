#!lua flags=no-writes
-- What is pending for an organization, of events that started at an instant or later or that do not say when they did:
-- everything, less what started before the instant.
--
-- KEYS[1 .. 6]  as parts/index.lua has them
-- ARGV[1]  scope ref of the organization
-- ARGV[2]  most entries to go through when the index is in doubt
-- ARGV[3]  the organization's first place in the index by time
-- ARGV[4]  its place at the instant
-- ARGV[5]  the instant, milliseconds since 1970
--
-- Returns {picodollars in decimal, entries that were gone through: 0 when the index was proven}.
-- Errors: as pending.lua has them.

local depth = redis.call('LLEN', queue)
if not proven(depth, read_state()) then
  return pending_by_entries(depth, ARGV[1], tonumber(ARGV[5]), tonumber(ARGV[2]))
end
if depth == 0 then
  return { '0', 0 }
end
local amount = counter_of(ARGV[1])
if type(amount) == 'table' then
  return amount
end
local high, low = parse(amount)
local older = redis.call('ZRANGEBYLEX', since, '[' .. ARGV[3], '(' .. ARGV[4])
for i, before in ipairs(read_fields(amounts, older)) do
  if not before or not is_amount(before) then
    return redis.error_reply('DAMAGED pending spend of one organization and start is not a positive integer')
  end
  high, low = minus(high, low, parse(before))
  if high < 0 then
    return redis.error_reply('DAMAGED pending spend of ' .. ARGV[1] .. ' is less than that of its past starts')
  end
end
return { decimal(high, low), 0 }
