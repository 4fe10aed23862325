#!lua flags=no-writes
-- All counters and switches of one bucket, at one instant.
--
-- KEYS  1 bucket  2 orders
-- ARGV  none
-- Outcomes
--   bad_data                    a key of another type
--   gone, field, value…         the bucket's memory is lost; what is left of it
--   present, field, value…

local state = redis.pcall('HGETALL', KEYS[1])
local sentinel = redis.pcall('HGET', KEYS[2], '#')
if state.err or (type(sentinel) == 'table' and sentinel.err) then
  return { 'bad_data' }
end
-- RESP3 would answer a map; scripts are always answered in RESP2, as a flat list.
local loaded = redis.call('HEXISTS', KEYS[1], '@control') == 1 and sentinel
table.insert(state, 1, loaded and 'present' or 'gone')
return state
