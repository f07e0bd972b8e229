-- Part of other scripts: what the entries themselves say, for when the index is in doubt.

-- days from 1970-01-01 to a day of the Gregorian calendar
local function days(year, month, day)
  if month <= 2 then
    year, month = year - 1, month + 12
  end
  return 365 * year + math.floor(year / 4) - math.floor(year / 100) + math.floor(year / 400)
    + math.floor((153 * (month - 3) + 2) / 5) + day - 719469
end

-- milliseconds since 1970 of an instant in the one writing that entries use; nil for any other
local function millis(text)
  local year, month, day, hour, minute, second, micros =
    string.match(text, '^(%d%d%d%d)%-(%d%d)%-(%d%d)T(%d%d):(%d%d):(%d%d)%.(%d%d%d%d%d%d)Z$')
  if not year or tonumber(month) < 1 or tonumber(month) > 12 or tonumber(day) < 1 or tonumber(day) > 31
    or tonumber(hour) > 23 or tonumber(minute) > 59 or tonumber(second) > 59 then
    return nil
  end
  local seconds = ((days(tonumber(year), tonumber(month), tonumber(day)) * 24 + tonumber(hour)) * 60
    + tonumber(minute)) * 60 + tonumber(second)
  return seconds * 1000 + math.floor(tonumber(micros) / 1000)
end

-- number, link, time of queueing and rest of an entry of format 2; nil when the bytes do not start as one
local function read_link(raw)
  local seq, chain, queued, at = string.match(raw, '^{"seq":([1-9]%d*),"chain":"([0-9a-f]+)","queued":(%d+),()"format":2,')
  if not seq or #seq > 15 or #chain ~= 40 then
    return nil
  end
  if queued ~= '0' and (not is_count(queued, 15) or tonumber(queued) > 253402300799999) then
    return nil
  end
  return seq, chain, queued, string.sub(raw, at)
end

-- whether the amount for people is that many picodollars
local function says(shown, picos)
  local whole, fraction = string.match(type(shown) == 'string' and shown or '', '^(%d+)%.?(%d*)$')
  if not whole or #fraction > 12 then
    return false
  end
  local digits = string.match(whole .. fraction .. string.rep('0', 12 - #fraction), '^0*(%d+)$')
  return digits == picos
end

-- at least one scope ref, none twice
local function are_scopes(list)
  local places, seen = 0, {}
  for place, scope in pairs(list) do
    if type(place) ~= 'number' or type(scope) ~= 'string' or seen[scope] or not string.find(scope, '^[^/%c]+/[^%c]+$') then
      return false
    end
    places, seen[scope] = places + 1, true
  end
  return places > 0 and places == #list
end

-- the charged scopes, the amount in decimal (nil when no money moves) and the start in milliseconds (nil when it is not
-- said); nil when the bytes are no entry
local function read_event(raw)
  local whole, event = pcall(cjson.decode, raw)
  if not whole or type(event) ~= 'table' or type(event.scopes) ~= 'table' or not are_scopes(event.scopes) then
    return nil
  end
  local amount, start
  local paid = event.spend_pusd
  if paid ~= nil and paid ~= cjson.null then
    -- the number is a double by now: its digits are in the text
    amount = string.match(raw, '"spend_pusd":(%d+)[,}]')
    if not amount or tonumber(amount) ~= paid or not says(event.spend, amount) then
      return nil
    end
    if amount == '0' then
      amount = nil
    elseif not is_amount(amount) then
      return nil
    end
  elseif event.spend ~= nil then
    return nil
  end
  if event.start ~= nil and event.start ~= cjson.null then
    start = type(event.start) == 'string' and millis(event.start)
    if not start then
      return nil
    end
  end
  return event.scopes, amount, start
end

-- calls visit(position from 0, raw) for all entries, until it answers false
local function each_entry(depth, visit)
  for from = 0, depth - 1, 100 do
    for i, raw in ipairs(redis.call('LRANGE', queue, from, from + 99)) do
      if not visit(from + i - 1, raw) then
        return
      end
    end
  end
end
