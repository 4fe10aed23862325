#!lua
-- Raises an order's record in one bucket to D of a take with exactly these units; the stock moves by
-- the difference and may go below zero, which reads as sold out. At home the buyer is marked again.
--
-- KEYS  1 bucket  2 orders  3 ledger
-- ARGV  1 order number  2 take  3 lines hash  4 placement
--       5 number of SKUs, then sku, units of each; then, at home, mark field, units of each charge
-- Outcomes
--   bad_data     something cannot be read
--   no_stock     the bucket's memory is lost
--   already      the record says so, or stands higher
--   done, delta  units that the stock changed by

-- include: records

local BAD_DATA = { 'bad_data' }
local order_no, take = ARGV[1], tonumber(ARGV[2])
local count = tonumber(ARGV[5])
local first_charge = 6 + 2 * count

local fields = { '#', order_no }
for index = first_charge, #ARGV, 2 do
  fields[#fields + 1] = ARGV[index]
end
local orders = redis.pcall('HMGET', KEYS[2], unpack(fields))
local state = redis.pcall('HGET', KEYS[1], '@control')
if orders.err or (type(state) == 'table' and state.err) then
  return BAD_DATA
end
if not state or not orders[1] then
  return { 'no_stock' }
end
local record = { rank = 0, skus = {}, units = {} }
if orders[2] then
  record = read_record(orders[2])
  if not record then
    return BAD_DATA
  end
end
if record.rank > 2 * take - 1 then
  return { 'already' }
end

local skus, units, held = {}, {}, {}
for index = 6, first_charge - 1, 2 do
  skus[#skus + 1] = ARGV[index]
  units[ARGV[index]] = tonumber(ARGV[index + 1])
  held[#held + 1] = ARGV[index] .. '=' .. ARGV[index + 1]
end
local held_before = record.deducted and record.units or {}
for _, sku in ipairs(record.deducted and record.skus or {}) do
  if not units[sku] then
    skus[#skus + 1] = sku
    units[sku] = 0
  end
end
local free, sold, rest = read_skus(KEYS[1], skus)
if not free then
  return BAD_DATA
end
local same = record.rank == 2 * take - 1
local delta, counters = 0, {}
for _, sku in ipairs(skus) do
  local more = units[sku] - (held_before[sku] or 0)
  if more ~= 0 then
    same = false
    delta = delta - more
    counters[#counters + 1] = sku
    counters[#counters + 1] = write_sku(free[sku] - more, sold[sku] + more, rest[sku])
  end
end
local entries = {}
for charge = 1, #fields - 2 do
  local mark = read_mark(orders[2 + charge], order_no)
  if not mark then
    return BAD_DATA
  end
  local charged = ARGV[first_charge + 2 * charge - 1]
  if mark.own ~= tonumber(charged) then
    mark.entries[#mark.entries + 1] = order_no .. '=' .. charged
    entries[#entries + 1] = fields[2 + charge]
    entries[#entries + 1] = table.concat(mark.entries, ';')
  end
end
if same and #entries == 0 then
  return { 'already' }
end

held = table.concat(held, ',')
if not note('restore', order_no .. ' ' .. held) then
  return BAD_DATA
end
if #counters > 0 then
  redis.call('HSET', KEYS[1], unpack(counters))
end
if not same then
  local _, now = now_ms()
  local at_ms = record.at_ms or now
  entries[#entries + 1] = order_no
  entries[#entries + 1] = write_record('D', ARGV[2], at_ms, ARGV[3], held, ARGV[4])
end
redis.call('HSET', KEYS[2], unpack(entries))
return { 'done', delta }
