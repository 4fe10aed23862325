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
local clear = tonumber(ARGV[6])
local count = tonumber(ARGV[7 + clear])
local first_sku = 8 + clear
local first_charge = first_sku + 2 * count

local fields = { '#', order_no, unpack(ARGV, 7, 6 + clear) }
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
local record = { rank = 0, skus = {}, units = {}, placement = '' }
if orders[2] then
  record = read_record(orders[2])
  if not record then
    return BAD_DATA
  end
end
if record.rank > 2 * take - 1 then
  return { 'already' }
end
local at_home, same_placement = first_charge <= #ARGV, record.placement == ARGV[4]
if at_home and not same_placement and record.placement ~= ARGV[5] then
  return { 'changed' }
end

local skus, units, held = {}, {}, {}
for index = first_sku, first_charge - 1, 2 do
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
local same = record.rank == 2 * take - 1 and same_placement
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
local entries, gone = {}, {}
for index = 3, #fields do
  local mark = read_mark(orders[index], order_no)
  if not mark then
    return BAD_DATA
  end
  -- What this placement counts there; nothing in a mark of the record's own.
  local charged = index > 2 + clear and tonumber(ARGV[first_charge + 2 * (index - 3 - clear) + 1]) or nil
  if charged and mark.own ~= charged then
    mark.entries[#mark.entries + 1] = order_no .. string.format('=%d', charged)
  end
  if mark.own ~= charged and #mark.entries == 0 then
    gone[#gone + 1] = fields[index]
  elseif mark.own ~= charged then
    entries[#entries + 1] = fields[index]
    entries[#entries + 1] = table.concat(mark.entries, ';')
  end
end
if same and #entries == 0 and #gone == 0 then
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
if #entries > 0 then
  redis.call('HSET', KEYS[2], unpack(entries))
end
if #gone > 0 then
  redis.call('HDEL', KEYS[2], unpack(gone))
end
return { 'done', delta }
