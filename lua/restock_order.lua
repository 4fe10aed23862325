#!lua flags=allow-oom
-- Raises an order's record in one bucket to R of a take and gives back the units that the record
-- holds; the buyer's marks lose the order number, also when the record is R of this take already. Which
-- marks, the caller says: those of the record's placement and of the order's, which may differ.
-- Runs in a full memory too: it is what empties it.
--
-- KEYS  1 bucket  2 orders  3 ledger
-- ARGV  1 order number  2 take  3 when records expire (ms)
--       4 placement that the caller read from the record ('' where there was none)
--       5… mark fields to take the order number out of
-- Outcomes
--   changed          the record's placement is another one: read it again
--   bad_data         something cannot be read
--   already          the record is R of this take, or higher
--   record_only      the bucket's memory is lost: the record was written, no stock moved
--   done, units      so many units went back

-- include: records

local BAD_DATA = { 'bad_data' }
local order_no, take = ARGV[1], tonumber(ARGV[2])
local fields = { '#', order_no, unpack(ARGV, 5) }
local orders = redis.pcall('HMGET', KEYS[2], unpack(fields))
local state = redis.pcall('HGET', KEYS[1], '@control')
if orders.err or (type(state) == 'table' and state.err) then
  return BAD_DATA
end
local record = { rank = 0, at_ms = nil, hash = '', held = '', placement = '', skus = {}, units = {}, total = 0 }
if orders[2] then
  record = read_record(orders[2])
  if not record then
    return BAD_DATA
  end
end
if record.placement ~= ARGV[4] then
  return { 'changed' }
end
if record.rank > 2 * take then
  return { 'already' }
end
local raise = record.rank < 2 * take
local usable = state and orders[1]
local skus = (raise and usable and record.deducted) and record.skus or {}
local free, sold, rest = read_skus(KEYS[1], skus)
if not free then
  return BAD_DATA
end
local gone, kept = {}, {}
for index = 3, #fields do
  local mark = read_mark(orders[index], order_no)
  if not mark then
    return BAD_DATA
  end
  if mark.own and #mark.entries == 0 then
    gone[#gone + 1] = fields[index]
  elseif mark.own then
    kept[#kept + 1] = fields[index]
    kept[#kept + 1] = table.concat(mark.entries, ';')
  end
end

if raise then
  if not note('restock', order_no .. ' ' .. record.held, ARGV[3]) then
    return BAD_DATA
  end
  for _, sku in ipairs(skus) do
    local units = record.units[sku]
    redis.call('HSET', KEYS[1], sku, write_sku(free[sku] + units, sold[sku] - units, rest[sku]))
  end
  local _, now = now_ms()
  local at_ms = record.at_ms or now
  kept[#kept + 1] = order_no
  kept[#kept + 1] = write_record('R', ARGV[2], at_ms, record.hash, record.held, record.placement)
end
if #kept > 0 then
  redis.call('HSET', KEYS[2], unpack(kept))
end
if #gone > 0 then
  redis.call('HDEL', KEYS[2], unpack(gone))
end
if not raise then
  return { 'already' }
end
if not orders[1] then
  redis.call('PEXPIREAT', KEYS[2], ARGV[3])
end
if not usable then
  return { 'record_only' }
end
return { 'done', record.deducted and record.total or 0 }
