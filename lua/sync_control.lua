#!lua
-- Takes over window and rate of a configuration that is newer than the bucket's, and lets the keys
-- live as long as its window needs.
--
-- KEYS  1 bucket  2 orders  3 ledger
-- ARGV  1 configuration version  2 start (ms)  3 end (ms)  4 orders per second
--       5 when stock expires (ms)  6 when records expire (ms)
-- Outcomes
--   bad_data     something cannot be read
--   kept         the bucket's is as new, or its memory is lost
--   taken

-- include: records

local known = redis.pcall('HGET', KEYS[1], '@control')
local sentinel = redis.pcall('HGET', KEYS[2], '#')
if (type(known) == 'table' and known.err) or (type(sentinel) == 'table' and sentinel.err) then
  return { 'bad_data' }
end
if not known or not sentinel then
  return { 'kept' }
end
local newer = exact(ARGV[1])
known = exact(string.match(known, CONTROL))
if not known or not newer then
  return { 'bad_data' }
end
if newer <= known then
  return { 'kept' }
end
redis.call('HSET', KEYS[1], '@control', table.concat(ARGV, '|', 1, 4))
-- Longer, never shorter: an earlier end must not take records away that are still needed.
redis.call('PEXPIREAT', KEYS[1], ARGV[5], 'GT')
redis.call('PEXPIREAT', KEYS[2], ARGV[6], 'GT')
redis.call('PEXPIREAT', KEYS[3], ARGV[6], 'GT')
return { 'taken' }
