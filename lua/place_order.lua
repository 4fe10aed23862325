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
local order_no, hash = ARGV[3], ARGV[5]
local lines = tonumber(ARGV[9])
local first_charge = 10 + 2 * lines

local names = { '@control', '@admitted' }
for line = 1, lines do
  names[2 + line] = ARGV[8 + 2 * line]
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

local now, at_ms, second = now_ms()
if not state[1] or not orders[1] then
  return { now < tonumber(ARGV[2]) and 'not_started' or 'memory_lost' }
end
local version, starts, ends, rate = string.match(state[1], CONTROL)
if not version then
  return BAD_DATA
end
if version ~= ARGV[1] then
  return { 'configuration_changed' }
end

local last_second, admitted = string.match(state[2] or '', ADMITTED)
if not last_second then
  return BAD_DATA
end
local free, sold, rest, frozen = {}, {}, {}, false
for line = 1, lines do
  local free_text, sold_text, rest_text, on_sale = string.match(state[2 + line] or '', SKU)
  free[line], sold[line], rest[line] = exact(free_text), exact(sold_text), rest_text
  if not free[line] or not sold[line] then
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
if now < tonumber(starts) then
  return { 'not_started' }
end
if now >= tonumber(ends) then
  return { 'ended' }
end
if frozen then
  return { 'frozen' }
end
admitted = last_second == second and tonumber(admitted) or 0
if admitted > 0 and admitted >= tonumber(rate) then
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

local counters, held = { '@admitted', second .. string.format('|%d', admitted + 1) }, {}
for line = 1, lines do
  local sku = ARGV[8 + 2 * line]
  held[line] = string.format('%s=%d', sku, taken[line])
  counters[1 + 2 * line] = sku
  counters[2 + 2 * line] = write_sku(free[line] - taken[line], sold[line] + taken[line], rest[line])
end
held = table.concat(held, ',')
if not note('place', order_no .. ' ' .. held) then
  return BAD_DATA
end
local entries = { order_no, write_record('D', '1', at_ms, hash, held, ARGV[6]) }
for charge, mark in ipairs(marks) do
  mark.entries[#mark.entries + 1] = order_no .. '=' .. ARGV[first_charge + 2 * charge - 1]
  entries[1 + 2 * charge] = fields[2 + charge]
  entries[2 + 2 * charge] = table.concat(mark.entries, ';')
end
redis.call('HSET', KEYS[1], unpack(counters))
redis.call('HSET', KEYS[2], unpack(entries))
return { 'admitted', unpack(taken) }
