#!lua flags=no-writes
-- What the entries of an older deployment's queue charge to one owner: their digits, for the client to add up exactly.
--
-- KEYS[1]  list: entries of format 1, oldest first
-- ARGV[1]  field that names the owner: org_id, team_id, user_id or key_id
-- ARGV[2]  the owner's id
-- ARGV[3]  1 to return starts too, 0 to leave them out
-- ARGV[4]  most entries to go through
--
-- Returns {length, digits, start, how many, digits, start, how many, ...}: paid entries of this owner, those with the same
-- digits and start together. The start is as the entry writes it, empty when it writes none or is not asked for.
-- Errors: DAMAGED an entry cannot be read; UNNAMED the owner is a key, and a paid entry does not say which row its key
-- is; UNPROVEN the queue is longer than ARGV[4].

local depth = redis.call('LLEN', KEYS[1])
if depth > tonumber(ARGV[4]) then
  return redis.error_reply('UNPROVEN the older queue has ' .. depth .. ' entries; at most ' .. ARGV[4] .. ' are gone through')
end
local function text(value)
  return type(value) == 'string' and value or ''
end
local groups, order = {}, {}
for from = 0, depth - 1, 100 do
  for i, raw in ipairs(redis.call('LRANGE', KEYS[1], from, from + 99)) do
    local whole, entry = pcall(cjson.decode, raw)
    if not whole or type(entry) ~= 'table' or text(entry.request_id) == '' then
      return redis.error_reply('DAMAGED entry ' .. (from + i - 1) .. ' of the older queue cannot be read')
    end
    local spend = entry.spend
    if entry.spend_valid ~= false and spend ~= nil and spend ~= cjson.null then
      -- the number is a double by now: its digits are in the text
      local digits = string.match(raw, '"spend"%s*:%s*(%-?%d[%d%.eE%+%-]*)%s*[,}]')
      if type(spend) ~= 'number' or not digits or tonumber(digits) ~= spend or spend < 0 then
        return redis.error_reply('DAMAGED spend of entry ' .. (from + i - 1) .. ' of the older queue is not an amount')
      end
      local paid = string.find(string.match(digits, "^[^eE]*"), "[1-9]") ~= nil
      if paid and ARGV[1] == 'key_id' and text(entry.key_id) == '' and text(entry.api_key) ~= '' then
        return redis.error_reply('UNNAMED paid entry ' .. (from + i - 1) .. ' of the older queue does not say which key it is')
      end
      if paid and text(entry[ARGV[1]]) == ARGV[2] then
        local start = ARGV[3] == '1' and text(entry.start) or ''
        local group = groups[digits .. '\0' .. start]
        if group then
          group[3] = group[3] + 1
        else
          group = { digits, start, 1 }
          groups[digits .. '\0' .. start] = group
          order[#order + 1] = group
        end
      end
    end
  end
end
local reply = { depth }
for _, group in ipairs(order) do
  reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = group[1], group[2], group[3]
end
return reply
