-- Part of other scripts: what proves that the head of a list is what was committed.

-- the digest of the first n entries, SHA-1 over that of those before it and the entry, and the last of them; in pieces, so
-- that a batch of large entries is never held whole
local function read_prefix(list, n)
  local digest, last = string.rep('0', 40), nil
  for from = 0, n - 1, 100 do
    for _, entry in ipairs(redis.call('LRANGE', list, from, math.min(from + 99, n - 1))) do
      digest, last = redis.sha1hex(digest .. entry), entry
    end
  end
  return digest, last
end
