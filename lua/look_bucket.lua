#!lua flags=no-writes
-- What a bucket has for an order that looks around. Reads only.
--
-- KEYS  1 bucket  2 orders
-- ARGV  1 configuration version  2 order number  3… sku
-- Outcomes
--   unusable, limited, record     keys gone, of another configuration or unreadable, or a SKU frozen
--   free, limited, record, units… free units per SKU; limited is 1 or 0, record '' where there is none

-- include: records

local skus = { unpack(ARGV, 3) }
local orders = redis.pcall('HMGET', KEYS[2], '#', ARGV[2])
local state = redis.pcall('HMGET', KEYS[1], '@control', '@admitted')
if orders.err or state.err then
  return { 'unusable', '0', '' }
end
local version, _, _, rate = string.match(state[1] or '', CONTROL)
local last_second, admitted = string.match(state[2] or '', ADMITTED)
local _, _, second = now_ms()
local limited = rate and last_second == second and tonumber(admitted) >= tonumber(rate)
local free, _, _, on_sale = read_skus(KEYS[1], skus)
-- In the reply, '' stands for no record: a record of no text cannot be read.
local usable = orders[1] and orders[2] ~= '' and version == ARGV[1] and last_second and free
local reply = { 'free', limited and '1' or '0', orders[2] or '' }
for index, sku in ipairs(usable and skus or {}) do
  usable = usable and on_sale[sku] == '1'
  reply[3 + index] = math.max(free[sku], 0)
end
if not usable then
  return { 'unusable', reply[2], reply[3] }
end
return reply
