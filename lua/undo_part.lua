#!lua flags=allow-oom
-- Takes a submission's deduction in one bucket back as if it had never been: D of the first take →
-- absent, units back; at home the buyer's marks lose the order number too. The only script that lowers
-- a record's rank.
--
-- KEYS  1 bucket  2 orders  3 ledger
-- ARGV  1 order number  2 placement that the marks are of  3… mark fields, at home
-- Outcomes
--   absent       there was none
--   bad_data     something cannot be read
--   given_back   the record is R, or of a later take
--   changed      the record's placement is another one: read it and its marks
--   done

-- include: records

local BAD_DATA = { 'bad_data' }
local order_no = ARGV[1]
local orders = redis.pcall('HMGET', KEYS[2], '#', order_no, unpack(ARGV, 3))
local state = redis.pcall('HGET', KEYS[1], '@control')
if orders.err or (type(state) == 'table' and state.err) then
  return BAD_DATA
end
if not orders[2] then
  return { 'absent' }
end
local record = read_record(orders[2])
if not record then
  return BAD_DATA
end
if not record.deducted or record.take ~= 1 then
  return { 'given_back' }
end
-- Another call of the submission wrote the record, and may have marked the buyer on another day.
if record.placement ~= ARGV[2] then
  return { 'changed' }
end
-- Where the bucket's memory is lost there is no stock to give back to.
local skus = (state and orders[1]) and record.skus or {}
local free, sold, rest = read_skus(KEYS[1], skus)
if not free then
  return BAD_DATA
end
local gone, kept = { order_no }, {}
for index = 3, #ARGV do
  local mark = read_mark(orders[index], order_no)
  if not mark then
    return BAD_DATA
  end
  if mark.own and #mark.entries == 0 then
    gone[#gone + 1] = ARGV[index]
  elseif mark.own then
    kept[#kept + 1] = ARGV[index]
    kept[#kept + 1] = table.concat(mark.entries, ';')
  end
end

if not note('undo', order_no .. ' ' .. record.held) then
  return BAD_DATA
end
for _, sku in ipairs(skus) do
  local units = record.units[sku]
  redis.call('HSET', KEYS[1], sku, write_sku(free[sku] + units, sold[sku] - units, rest[sku]))
end
if #kept > 0 then
  redis.call('HSET', KEYS[2], unpack(kept))
end
redis.call('HDEL', KEYS[2], unpack(gone))
return { 'done' }
