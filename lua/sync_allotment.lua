#!lua
-- Takes over allotment and sale switch of every SKU whose version is newer than the bucket's: by
-- version, never by difference, so it may come twice, late and in any order.
--
-- KEYS  1 bucket  2 orders  3 ledger
-- ARGV  sku, allotted, version, on sale (1 or 0) of each
-- Outcomes
--   bad_data       something cannot be read
--   taken, count   how many SKUs were newer; 0 in a bucket whose memory is lost

-- include: records

local BAD_DATA = { 'bad_data' }
local names = { '@version' }
for index = 1, #ARGV, 4 do
  for _, name in ipairs({ 'free:', 'allotted:', 'version:', 'sold:' }) do
    names[#names + 1] = name .. ARGV[index]
  end
end
local state = redis.pcall('HMGET', KEYS[1], unpack(names))
local sentinel = redis.pcall('HGET', KEYS[2], '#')
if state.err or (type(sentinel) == 'table' and sentinel.err) then
  return BAD_DATA
end
if not state[1] or not sentinel then
  return { 'taken', 0 }
end

local changes, moved = {}, {}
for index = 1, #ARGV, 4 do
  local sku, allotted, version, on_sale = unpack(ARGV, index, index + 3)
  allotted, version = whole(allotted), whole(version)
  local free, old, known, sold = whole(state[index + 1]), whole(state[index + 2]), whole(state[index + 3]), whole(state[index + 4])
  if not (state[index + 1] or state[index + 2] or state[index + 3] or state[index + 4]) then
    -- A SKU that the bucket was not loaded with.
    free, old, known, sold = 0, 0, -1, 0
  end
  if not (allotted and version and free and old and known and sold) then
    return BAD_DATA
  end
  if version > known then
    moved[#moved + 1] = sku .. '=' .. string.format('%.0f', allotted - old)
    for _, value in ipairs({
      'free:' .. sku, free + allotted - old, 'sold:' .. sku, sold, 'allotted:' .. sku, allotted,
      'version:' .. sku, version, 'on_sale:' .. sku, on_sale,
    }) do
      changes[#changes + 1] = value
    end
  end
end
if #moved > 0 then
  if not note('sync', table.concat(moved, ',')) then
    return BAD_DATA
  end
  redis.call('HSET', KEYS[1], unpack(changes))
end
return { 'taken', #moved }
