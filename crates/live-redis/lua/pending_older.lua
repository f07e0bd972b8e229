#!lua flags=allow-oom
-- What the entries of an older deployment's queue charge to each of several owners, all at one instant: their digits, for
-- the client to add up exactly. The entries are gone through once, however many owners there are.
--
-- KEYS[1]  list: entries of format 1, oldest first
-- ARGV[1]  most entries to go through
-- ARGV[2 ..]  for each owner: the field that names it (org_id, team_id, user_id or key_id), its id, 1 to return starts too
--             or 0 to leave them out
--
-- Returns {length, {for each owner: {digits, start, how many, digits, start, how many, ...}}}: the owner's paid entries,
-- those with the same digits and start together. The start is as the entry writes it, empty when it writes none or is not
-- asked for.
-- Errors, for all owners at once: DAMAGED an entry cannot be read; UNNAMED an owner is a key, and a paid entry does not say
-- which row its key is; UNPROVEN the queue is longer than ARGV[1].

local depth = redis.call('LLEN', KEYS[1])
if depth > tonumber(ARGV[1]) then
  return redis.error_reply('UNPROVEN the older queue has ' .. depth .. ' entries; at most ' .. ARGV[1] .. ' are gone through')
end
local function text(value)
  return type(value) == 'string' and value or ''
end
local groups, owners = {}, {}
for i = 2, #ARGV, 3 do
  local field, id = ARGV[i], ARGV[i + 1]
  local owner = { groups = {}, places = {}, with_start = ARGV[i + 2] == '1' }
  groups[#groups + 1] = owner.groups
  owners[field] = owners[field] or {}
  owners[field][id] = owners[field][id] or {}
  table.insert(owners[field][id], owner)
end

local function add(owner, digits, start)
  start = owner.with_start and start or ''
  local place = owner.places[digits .. '\0' .. start]
  if place then
    owner.groups[place] = owner.groups[place] + 1
  else
    local last = #owner.groups
    owner.groups[last + 1], owner.groups[last + 2], owner.groups[last + 3] = digits, start, 1
    owner.places[digits .. '\0' .. start] = last + 3
  end
end

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
      if paid and owners.key_id and text(entry.key_id) == '' and text(entry.api_key) ~= '' then
        return redis.error_reply('UNNAMED paid entry ' .. (from + i - 1) .. ' of the older queue does not say which key it is')
      end
      for field, of_field in pairs(paid and owners or {}) do
        for _, owner in ipairs(of_field[text(entry[field])] or {}) do
          add(owner, digits, text(entry.start))
        end
      end
    end
  end
end
return { depth, groups }
