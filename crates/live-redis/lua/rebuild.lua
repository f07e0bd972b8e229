#!lua
-- Moves the counters of a minute to another version of the tree, then goes on as `admit_batch`, whose text
-- follows: both happen in one call, so that two versions that alternate both get on.
--
-- Who comes when the counters are of the caller's version already, does nothing here but decide.
--
-- Only what was used in this minute can have released anything, so only the nodes that have a field, and their
-- ancestors, are looked at.
--
-- KEYS[1]  as in admit_one.lua; the caller knows the minute by now, so there is no other
-- ARGV[1 .. 4+n]  as in admit_batch.lua, n = number of nodes of the paths; ARGV[4] is empty
-- ARGV[5+n]  how many fields of the hash are no nodes of the caller's tree, beside `v` and `t`
-- ARGV[6+n ..]  pieces of at most 1000 nodes, two arguments each: for each node RPM limit or -1, TPM limit or -1
--            (big-endian signed 64-bit), number of its parent among all of them or 0 (big-endian unsigned 32-bit);
--            and the nodes' fields (MessagePack array). The nodes are those that have a field in the hash, their
--            ancestors, and the paths' nodes; children before their parents.
--
-- Returns what admit_batch returns, or {'A'} when the hash has got a field that is not accounted for: the caller
-- reads its fields again. Nothing is written then.
-- Errors (nothing written): as in admit_one.lua.
-- First write: the values with their new releases. Until `v` is written the hash belongs to the old version, under
-- which it is rebuilt in turn.

if redis.call('HGET', KEYS[1], 'v') ~= ARGV[1] then
  local MAX, TTL = 9007199254740991, 120
  local call, sunpack, spack = redis.call, struct.unpack, struct.pack
  local key = KEYS[1]
  local first = 6 + #ARGV[2] / 32

  -- Of each inner node what its children have released; of a leaf nothing is kept, so that a hundred thousand of
  -- them leave no garbage for the collector to walk again and again.
  local rpm_released, tpm_released = {}, {}
  local set, k, found, node = {}, 0, 0, 0
  for piece = first, #ARGV, 2 do
    local shape, fields = ARGV[piece], cmsgpack.unpack(ARGV[piece + 1])
    local values = call('HMGET', key, unpack(fields))
    for i = 1, #fields do
      node = node + 1
      local rpm_limit, tpm_limit, parent = sunpack('>i8i8I4', shape, i * 20 - 19)
      local rpm, tpm, rpm_before, tpm_before = 0, 0, 0, 0
      local value = values[i]
      if value then
        found = found + 1
        if #value ~= 32 then
          return redis.error_reply('DAMAGED rate counter of ' .. fields[i] .. ' has ' .. #value .. ' bytes, not 32')
        end
        rpm, tpm, rpm_before, tpm_before = sunpack('>I8I8I8I8', value)
        if rpm > MAX or tpm > MAX or rpm_before > MAX or tpm_before > MAX then
          return redis.error_reply('DAMAGED rate counter of ' .. fields[i] .. ' is out of bounds')
        end
      end
      local rpm_now, tpm_now = rpm_released[node] or 0, tpm_released[node] or 0
      if rpm_now ~= rpm_before or tpm_now ~= tpm_before then
        set[k + 1], set[k + 2] = fields[i], spack('>I8I8I8I8', rpm, tpm, rpm_now, tpm_now)
        k = k + 2
      end
      if parent > 0 then
        if rpm_limit >= 0 then
          rpm_now = rpm < rpm_limit and rpm or rpm_limit
        end
        if tpm_limit >= 0 then
          tpm_now = tpm < tpm_limit and tpm or tpm_limit
        end
        rpm_released[parent] = (rpm_released[parent] or 0) + rpm_now
        tpm_released[parent] = (tpm_released[parent] or 0) + tpm_now
      end
    end
  end
  if found + ARGV[first - 1] + call('HEXISTS', key, 'v') + call('HEXISTS', key, 't') ~= call('HLEN', key) then
    return { 'A' }
  end

  for from = 1, k, 1000 do
    call('HSET', key, unpack(set, from, math.min(from + 999, k)))
  end
  call('HSET', key, 'v', ARGV[1])
  -- the turn that turn.lua gave
  call('HDEL', key, 't')
  call('EXPIRE', key, TTL)
end
