-- Part of other scripts: numbers that left the queue and were not acknowledged are written down before anything that shows it
-- is set back.
--
-- Behind parts/decimal.lua and parts/index.lua. An item of the list `lost` is one line of JSON: first, last (numbers), present
-- (how many of those were still there and are accounted for), found_by (the script), at (milliseconds since 1970 by the server's
-- clock), pending (kind of scope -> picodollars in decimal that are charged to nothing that is left; absent when the counters
-- could not be read). The list holds less than what was lost, so it needs no bound of its own.

-- the numbers that the state names and the list does not have: first, last, present; nil when none is missing. n entries are
-- there, from the number at the head to that at the tail (nil when these cannot be read)
local function missing_numbers(known, n, at_head, at_tail)
  if not (known[1] and known[2] and is_count(known[1], 15) and is_count(known[2], 15)) then
    return nil
  end
  local head, tail = tonumber(known[1]), tonumber(known[2]) - 1
  if tail - head + 1 <= n then
    return nil
  end
  if n == 0 or not at_head or not at_tail or at_tail - at_head + 1 ~= n then
    return head, tail, n
  end
  if at_head > head and at_tail >= tail then
    return head, at_head - 1, 0
  end
  if at_head <= head and at_tail < tail then
    return at_tail + 1, tail, 0
  end
  return head, tail, n
end

-- the number of an entry; nil when it does not start as one
local function number_of(entry)
  local seq = string.match(entry or '', '^{"seq":([1-9]%d*),')
  return seq and #seq <= 15 and tonumber(seq) or nil
end

local function add_by_kind(sums, scope, high, low)
  local kind = string.match(scope, '^([^/]+)/')
  if kind then
    local sum = sums[kind] or { 0, 0 }
    sums[kind] = { plus(sum[1], sum[2], high, low) }
  end
end

-- what the counters hold, by kind of scope; nil when they cannot be read
local function pending_by_kind()
  local fields = redis.pcall('HGETALL', hot)
  if fields.err then
    return nil
  end
  local sums = {}
  for i = 1, #fields, 2 do
    if not is_amount(fields[i + 1]) then
      return nil
    end
    add_by_kind(sums, fields[i], parse(fields[i + 1]))
  end
  return sums
end

-- takes what is accounted for off the sums; what it exceeds them by is nothing that was lost
local function take_by_kind(sums, taken)
  for kind, less in pairs(taken) do
    local sum = sums[kind] or { 0, 0 }
    local high, low = minus(sum[1], sum[2], less[1], less[2])
    sums[kind] = (high > 0 or (high == 0 and low > 0)) and { high, low } or nil
  end
end

local function loss_line(first, last, present, found_by, sums)
  local pending = ''
  if sums then
    local amounts = {}
    for kind, sum in pairs(sums) do
      amounts[kind] = decimal(sum[1], sum[2])
    end
    pending = ',"pending":' .. cjson.encode(amounts)
  end
  local now = redis.call('TIME')
  return string.format('{"first":%.0f,"last":%.0f,"present":%.0f,"found_by":"%s","at":%s%03d', first, last, present, found_by,
    now[1], math.floor(tonumber(now[2]) / 1000)) .. pending .. '}'
end
