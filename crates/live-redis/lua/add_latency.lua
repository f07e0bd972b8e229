#!lua
-- Puts a sample before the ones that are kept, and drops the oldest.
--
-- KEYS[1]  list: samples, newest first, decimal
-- ARGV[1]  the sample
-- ARGV[2]  how many samples are kept
-- ARGV[3]  milliseconds until the list expires
--
-- Returns the number of samples kept.
-- Errors (nothing written): WRONGTYPE.
-- First write: the sample. If it alone were lost, so is one sample of an average.

local samples = KEYS[1]
redis.call('LPUSH', samples, ARGV[1])
redis.call('LTRIM', samples, 0, ARGV[2] - 1)
redis.call('PEXPIRE', samples, ARGV[3])
return redis.call('LLEN', samples)
