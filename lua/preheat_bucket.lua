#!lua
-- Loads a bucket whose memory is empty or lost: drops records and marks, sets stock = allotted (not
-- minus live orders: those are restored by number afterwards).
--
-- KEYS  1 bucket  2 orders  3 ledger
-- ARGV  1 configuration version  2 start (ms)  3 end (ms)  4 orders per second
--       5 when stock expires (ms)  6 when records expire (ms)
--       7… sku, allotted, version, on sale (1 or 0) of each
-- Outcomes
--   bad_data     a key of another type, or a number that cannot be kept exactly
--   already      the bucket is loaded: nothing was changed
--   loaded

-- include: records

local BAD_DATA = { 'bad_data' }
local state = redis.pcall('HGET', KEYS[1], '@control')
local sentinel = redis.pcall('HGET', KEYS[2], '#')
if (type(state) == 'table' and state.err) or (type(sentinel) == 'table' and sentinel.err) then
  return BAD_DATA
end
-- Stock without the records that explain it is as lost as no stock.
if state and sentinel then
  return { 'already' }
end
local counters = { '@control', table.concat(ARGV, '|', 1, 4), '@admitted', '0|0' }
local allotted = {}
for index = 7, #ARGV, 4 do
  local sku, units, version, on_sale = unpack(ARGV, index, index + 3)
  if not exact(units) or not exact(version) then
    return BAD_DATA
  end
  allotted[#allotted + 1] = sku .. '=' .. units
  counters[#counters + 1] = sku
  counters[#counters + 1] = table.concat({ units, '0', on_sale, units, version }, '|')
end
if not exact(ARGV[1]) then
  return BAD_DATA
end

if not note('preheat', table.concat(allotted, ','), ARGV[6]) then
  return BAD_DATA
end
-- Freed aside: deleting a hundred thousand records takes longer than a call may wait.
redis.call('UNLINK', KEYS[1], KEYS[2])
redis.call('HSET', KEYS[1], unpack(counters))
redis.call('HSET', KEYS[2], '#', '1')
redis.call('PEXPIREAT', KEYS[1], ARGV[5])
redis.call('PEXPIREAT', KEYS[2], ARGV[6])
redis.call('PEXPIREAT', KEYS[3], ARGV[6])
return { 'loaded' }
