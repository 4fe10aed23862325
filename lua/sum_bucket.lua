#!lua
-- Adds up the units that the D records of a bucket hold and compares them with the counters, at one
-- instant; repairs the counters when asked to: stock = allotted − deducted, sold = deducted.
-- Takes about a millisecond per thousand records, and nobody else is served meanwhile.
--
-- KEYS  1 bucket  2 orders  3 ledger
-- ARGV  1 repair: 1 or 0
-- Outcomes
--   bad_data                                     something cannot be read; nothing was repaired
--   sums, then sku, deducted, allotted, stock…   of each SKU that differs; stock before the repair

-- include: records

local BAD_DATA = { 'bad_data' }
local state = redis.pcall('HGETALL', KEYS[1])
local sentinel = redis.pcall('HGET', KEYS[2], '#')
if state.err or (type(sentinel) == 'table' and sentinel.err) then
  return BAD_DATA
end
local texts, skus = {}, {}
for index = 1, #state, 2 do
  texts[state[index]] = state[index + 1]
  if string.sub(state[index], 1, 1) ~= '@' then
    skus[#skus + 1] = state[index]
  end
end
table.sort(skus)
if not texts['@control'] or not sentinel then
  return { 'sums' }
end

local deducted = {}
-- In pages, because all at once would need as much memory again. Nothing changes while a script
-- runs, so every field comes exactly once.
local cursor = '0'
repeat
  local page = redis.call('HSCAN', KEYS[2], cursor, 'COUNT', 500)
  cursor = page[1]
  for index = 1, #page[2], 2 do
    local field, text = page[2][index], page[2][index + 1]
    if field ~= '#' and not string.find(field, '|', 1, true) then
      local record = read_record(text)
      if not record then
        return BAD_DATA
      end
      for _, sku in ipairs(record.deducted and record.skus or {}) do
        deducted[sku] = (deducted[sku] or 0) + record.units[sku]
      end
    end
  end
until cursor == '0'
for sku, units in pairs(deducted) do
  if units > 0 and not texts[sku] then
    return BAD_DATA
  end
end

local reply, changes, moved = { 'sums' }, {}, {}
for _, sku in ipairs(skus) do
  local free, sold, on_sale, allotted, version = string.match(texts[sku], SKU_WHOLE)
  free, sold, allotted = exact(free), exact(sold), exact(allotted)
  if not (free and sold and allotted) then
    return BAD_DATA
  end
  local units = deducted[sku] or 0
  if free ~= allotted - units or sold ~= units then
    for _, value in ipairs({ sku, units, allotted, free }) do
      reply[#reply + 1] = value
    end
    moved[#moved + 1] = string.format('%s=%d', sku, allotted - units - free)
    changes[#changes + 1] = sku
    changes[#changes + 1] = write_sku(allotted - units, units, string.format('|%s|%d|%s', on_sale, allotted, version))
  end
end
if ARGV[1] == '1' and #changes > 0 then
  if not note('repair', table.concat(moved, ',')) then
    return BAD_DATA
  end
  redis.call('HSET', KEYS[1], unpack(changes))
end
return reply
