#!lua flags=no-writes
-- What a bucket has for an order that looks around. Reads only.
--
-- KEYS  1 bucket  2 orders
-- ARGV  1 configuration version  2 order number  3… sku
-- Outcomes
--   unusable, limited, record     keys gone, of another configuration or unreadable, or a SKU frozen
--   free, limited, record, units… free units per SKU; limited is 1 or 0, record '' where there is none

-- include: records

local orders = redis.pcall('HMGET', KEYS[2], '#', ARGV[2])
local names = { '@version', '@rate', '@second', '@admitted' }
for index = 3, #ARGV do
  names[#names + 1] = 'free:' .. ARGV[index]
  names[#names + 1] = 'on_sale:' .. ARGV[index]
end
local state = redis.pcall('HMGET', KEYS[1], unpack(names))
if orders.err or state.err then
  return { 'unusable', '0', '' }
end
local _, second = now_ms()
local rate, last_second, admitted = whole(state[2]), whole(state[3]), whole(state[4])
local limited = rate and admitted and last_second == second and admitted >= rate
local reply = { 'free', limited and '1' or '0', orders[2] or '' }
local usable = orders[1] and state[1] == ARGV[1] and rate and last_second and admitted
for index = 3, #ARGV do
  local free = whole(state[2 * index - 1])
  usable = usable and free and state[2 * index] == '1'
  reply[#reply + 1] = free and math.max(free, 0)
end
if not usable then
  return { 'unusable', reply[2], reply[3] }
end
return reply
