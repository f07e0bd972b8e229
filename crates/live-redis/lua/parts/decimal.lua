-- Part of other scripts: exact whole numbers beyond 2^53.
--
-- A Lua number is a double, so an amount is held as two of them, billions and the rest. Both stay exact up to the sum of
-- 900,000 amounts of 2^63-1.

local BILLION = 1000000000

-- a whole number above zero of at most so many digits, in the one writing that these scripts use
local function is_count(text, digits)
  return #text <= digits and string.find(text, '^[1-9]%d*$') ~= nil
end

-- the same, and at most 2^63-1: what one counter may hold
local function is_amount(text)
  return is_count(text, 19) and (#text < 19 or text <= '9223372036854775807')
end

local function parse(text)
  if #text <= 15 then
    -- far enough below 2^53 for an exact remainder
    local whole = tonumber(text)
    local low = whole % BILLION
    return (whole - low) / BILLION, low
  end
  return tonumber(string.sub(text, 1, -10)), tonumber(string.sub(text, -9))
end

local function plus(high, low, more_high, more_low)
  high, low = high + more_high, low + more_low
  if low >= BILLION then
    return high + 1, low - BILLION
  end
  return high, low
end

-- high is below zero when the second number is the larger one
local function minus(high, low, less_high, less_low)
  high, low = high - less_high, low - less_low
  if low < 0 then
    return high - 1, low + BILLION
  end
  return high, low
end

-- %d takes whole numbers up to 2^53 as they are, and is several times cheaper than %.0f
local function decimal(high, low)
  if high < 9000000 then
    return string.format('%d', high * BILLION + low)
  end
  return string.format('%d%09d', high, low)
end

-- at most 2^63-1: what one counter may hold
local function fits(high, low)
  return high < 9223372036 or (high == 9223372036 and low <= 854775807)
end
