#!lua
-- Admits an order into its home bucket: buyer's marks, stock and record in one step. Everything is
-- checked before the first write, in the order of the outcomes; a refusal writes nothing.
--
-- KEYS  1 bucket  2 orders  3 ledger
-- ARGV  1 configuration version  2 start of the window (ms)  3 order number  4 look: 1 or 0
--       5 lines hash  6 placement  7 most units per scope  8 most placements per scope
--       9 number of lines, then sku, units of each; then mark field, units of each charge
-- Outcomes
--   not_started | memory_lost     the bucket's keys are gone, before the window or not
--   configuration_changed         the bucket knows another version
--   bad_data                      something cannot be read
--   replayed, record | mismatch   admitted before, with the same lines or with others
--   given_back                    its units went back
--   not_started | ended           by the clock of Redis
--   frozen | limited
--   limit_reached, order number…  the orders of the buyer in that scope
--   short, free units…            per line
--   admitted, units…              taken per line; less than asked only with look

-- include: records

local BAD_DATA = { 'bad_data' }
local version, order_no, hash, placement = ARGV[1], ARGV[3], ARGV[5], ARGV[6]
local lines = tonumber(ARGV[9])
local first_charge = 10 + 2 * lines

local names = { '@version', '@starts_ms', '@ends_ms', '@rate', '@second', '@admitted' }
for index = 10, first_charge - 1, 2 do
  local sku = ARGV[index]
  names[#names + 1] = 'free:' .. sku
  names[#names + 1] = 'sold:' .. sku
  names[#names + 1] = 'on_sale:' .. sku
end
local fields = { '#', order_no }
for index = first_charge, #ARGV, 2 do
  fields[#fields + 1] = ARGV[index]
end
local state = redis.pcall('HMGET', KEYS[1], unpack(names))
local orders = redis.pcall('HMGET', KEYS[2], unpack(fields))
if state.err or orders.err then
  return BAD_DATA
end

local now, second = now_ms()
if not state[1] or not orders[1] then
  return { now < tonumber(ARGV[2]) and 'not_started' or 'memory_lost' }
end
if not whole(state[1]) then
  return BAD_DATA
end
if state[1] ~= version then
  return { 'configuration_changed' }
end

local starts, ends, rate = whole(state[2]), whole(state[3]), whole(state[4])
local last_second, admitted = whole(state[5]), whole(state[6])
if not (starts and ends and rate and last_second and admitted) then
  return BAD_DATA
end
local free, sold, frozen = {}, {}, false
for line = 1, lines do
  local on_sale = state[6 + 3 * line]
  free[line], sold[line] = whole(state[4 + 3 * line]), whole(state[5 + 3 * line])
  if not free[line] or not sold[line] or (on_sale ~= '1' and on_sale ~= '0') then
    return BAD_DATA
  end
  frozen = frozen or on_sale == '0'
end
local record = nil
if orders[2] then
  record = read_record(orders[2])
  if not record then
    return BAD_DATA
  end
end
local marks = {}
for charge = 1, #fields - 2 do
  marks[charge] = read_mark(orders[2 + charge], order_no)
  if not marks[charge] then
    return BAD_DATA
  end
end

if record then
  if not record.deducted then
    return { 'given_back' }
  end
  if record.hash ~= hash then
    return { 'mismatch' }
  end
  return { 'replayed', orders[2] }
end
if now < starts then
  return { 'not_started' }
end
if now >= ends then
  return { 'ended' }
end
if frozen then
  return { 'frozen' }
end
if last_second == second and admitted >= rate then
  return { 'limited' }
end
for charge, mark in ipairs(marks) do
  local units = tonumber(ARGV[first_charge + 2 * charge - 1])
  if mark.units + units > tonumber(ARGV[7]) or #mark.orders >= tonumber(ARGV[8]) then
    return { 'limit_reached', unpack(mark.orders) }
  end
end
local taken, available, short = {}, {}, false
for line = 1, lines do
  local wanted = tonumber(ARGV[9 + 2 * line])
  available[line] = math.max(free[line], 0)
  taken[line] = math.min(available[line], wanted)
  short = short or taken[line] < wanted
end
if short and ARGV[4] ~= '1' then
  return { 'short', unpack(available) }
end

local counters = { '@second', second, '@admitted', last_second == second and admitted + 1 or 1 }
local held = {}
for line = 1, lines do
  local sku = ARGV[8 + 2 * line]
  held[line] = sku .. '=' .. taken[line]
  counters[#counters + 1] = 'free:' .. sku
  counters[#counters + 1] = free[line] - taken[line]
  counters[#counters + 1] = 'sold:' .. sku
  counters[#counters + 1] = sold[line] + taken[line]
end
held = table.concat(held, ',')
if not note('place', order_no .. ' ' .. held) then
  return BAD_DATA
end
local entries = { order_no, write_record('D', 1, string.format('%.0f', now), hash, held, placement) }
for charge, mark in ipairs(marks) do
  mark.entries[#mark.entries + 1] = order_no .. '=' .. ARGV[first_charge + 2 * charge - 1]
  entries[#entries + 1] = fields[2 + charge]
  entries[#entries + 1] = table.concat(mark.entries, ';')
end
redis.call('HSET', KEYS[1], unpack(counters))
redis.call('HSET', KEYS[2], unpack(entries))
return { 'admitted', unpack(taken) }
