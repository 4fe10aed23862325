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
local names = { '@control' }
for index = 1, #ARGV, 4 do
  names[#names + 1] = ARGV[index]
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
  -- A SKU that the bucket was not loaded with has nothing yet, of a version before all.
  local text = state[1 + (index + 3) / 4]
  local free, sold, _, old, known = string.match(text or '0|0|0|0|0', SKU_WHOLE)
  free, sold, old, known = exact(free), exact(sold), exact(old), text and exact(known) or -1
  allotted, version = exact(allotted), exact(version)
  if not (allotted and version and free and sold and old and (known ~= -1 or not text)) then
    return BAD_DATA
  end
  if version > known then
    moved[#moved + 1] = string.format('%s=%d', sku, allotted - old)
    changes[#changes + 1] = sku
    changes[#changes + 1] = write_sku(free + allotted - old, sold, string.format('|%s|%d|%d', on_sale, allotted, version))
  end
end
if #moved > 0 then
  if not note('sync', table.concat(moved, ',')) then
    return BAD_DATA
  end
  redis.call('HSET', KEYS[1], unpack(changes))
end
return { 'taken', #moved }
