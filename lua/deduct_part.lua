#!lua
-- Changes an order's record in one bucket to D of the first take with exactly these units, from
-- absent or from D with others; the stock moves by the difference. At home a new record also marks
-- the buyer, because record and mark move together; the buyer's limit is not checked here. A record
-- that is there keeps its placement, which is not read: the buyer's marks are those of that one.
--
-- KEYS  1 bucket  2 orders  3 ledger
-- ARGV  1 configuration version  2 order number  3 lines hash  4 placement
--       5 number of SKUs, then sku, units of each; then, at home, mark field, units of each charge
-- Outcomes
--   unusable                the bucket's keys are gone or of another configuration
--   bad_data                something cannot be read
--   given_back              the record is R, or of a later take
--   done                    the record says so now, or said so before
--   frozen                  a SKU of which more is wanted is not on sale
--   limited                 only where a record would be made
--   short, units…           what the order may hold here, per SKU

-- include: records

local BAD_DATA = { 'bad_data' }
local order_no = ARGV[2]
local count = tonumber(ARGV[5])
local first_charge = 6 + 2 * count

local fields = { '#', order_no }
for index = first_charge, #ARGV, 2 do
  fields[#fields + 1] = ARGV[index]
end
local orders = redis.pcall('HMGET', KEYS[2], unpack(fields))
local state = redis.pcall('HMGET', KEYS[1], '@control', '@admitted')
if orders.err or state.err then
  return BAD_DATA
end
if not orders[1] or not state[1] then
  return { 'unusable' }
end
local version, _, _, rate = string.match(state[1], CONTROL)
local last_second, admitted = string.match(state[2] or '', ADMITTED)
if not version or not last_second then
  return BAD_DATA
end
if version ~= ARGV[1] then
  return { 'unusable' }
end

local record, held_before = nil, {}
if orders[2] then
  record = read_record(orders[2])
  if not record then
    return BAD_DATA
  end
  held_before = record.units
end
local skus, wanted, held = {}, {}, {}
for index = 6, first_charge - 1, 2 do
  local sku = ARGV[index]
  skus[#skus + 1] = sku
  wanted[sku] = tonumber(ARGV[index + 1])
  held[#held + 1] = sku .. '=' .. ARGV[index + 1]
end
for _, sku in ipairs(record and record.skus or {}) do
  if not wanted[sku] then
    skus[#skus + 1] = sku
    wanted[sku] = 0
  end
end
local free, sold, rest, on_sale = read_skus(KEYS[1], skus)
if not free then
  return BAD_DATA
end
local marks = {}
for charge = 1, #fields - 2 do
  marks[charge] = read_mark(orders[2 + charge], order_no)
  if not marks[charge] then
    return BAD_DATA
  end
end

local same, frozen, short, may_hold = true, false, false, {}
for index, sku in ipairs(skus) do
  local before = held_before[sku] or 0
  local more = wanted[sku] - before
  same = same and more == 0
  if index <= count then
    frozen = frozen or (on_sale[sku] == '0' and more > 0)
    short = short or (more > 0 and more > free[sku])
    may_hold[index] = before + math.max(free[sku], 0)
  end
end

if record and not record.deducted then
  return { 'given_back' }
end
if record and same then
  return { 'done' }
end
-- A late payment took this order's stock again: it is no longer a submission's to change.
if record and record.take ~= 1 then
  return { 'given_back' }
end
if frozen then
  return { 'frozen' }
end
local _, at_ms, second = now_ms()
admitted = last_second == second and tonumber(admitted) or 0
if not record and admitted >= tonumber(rate) then
  return { 'limited' }
end
if short then
  return { 'short', unpack(may_hold) }
end

held = table.concat(held, ',')
if not note('deduct', order_no .. ' ' .. held) then
  return BAD_DATA
end
local counters = {}
if not record then
  counters = { '@admitted', second .. string.format('|%d', admitted + 1) }
end
for _, sku in ipairs(skus) do
  local more = wanted[sku] - (held_before[sku] or 0)
  counters[#counters + 1] = sku
  counters[#counters + 1] = write_sku(free[sku] - more, sold[sku] + more, rest[sku])
end
record = record or { fresh = true, at_ms = at_ms, hash = ARGV[3], placement = ARGV[4] }
local entries = { order_no, write_record('D', '1', record.at_ms, record.hash, held, record.placement) }
for charge, mark in ipairs(record.fresh and marks or {}) do
  mark.entries[#mark.entries + 1] = order_no .. '=' .. ARGV[first_charge + 2 * charge - 1]
  entries[#entries + 1] = fields[2 + charge]
  entries[#entries + 1] = table.concat(mark.entries, ';')
end
redis.call('HSET', KEYS[1], unpack(counters))
redis.call('HSET', KEYS[2], unpack(entries))
return { 'done' }
