#!lua
-- Adds up the units that the D records of a bucket hold, a page of records in each call, and at the last
-- page compares them with the counters; repairs the counters when asked to: stock = allotted − deducted,
-- sold = deducted. A page takes a millisecond or two per thousand records, in which nobody else is served.
--
-- The pages make one sum only if no record changed between them. Each script that changes one writes into
-- the ledger first, so the ledger's last entry tells; and the fields seen must be as many as there are,
-- because a scan may bring one twice. The last page and the repair are one script: nothing comes between.
--
-- KEYS  1 bucket  2 orders  3 ledger
-- ARGV  1 repair: 1 or 0  2 fields per page, about
--       3 cursor  4 ledger's last entry  5 fields in all  6 fields seen: as the last page told, or 0, '', 0, 0
--       7… sku, units of each so far
-- Outcomes
--   bad_data                                     something cannot be read; nothing was repaired
--   moved                                        something changed since the first page: begin again
--   page, cursor, entry, fields, seen, sku, units…
--   sums, then sku, deducted, allotted, stock…   of each SKU that differs; stock before the repair

-- include: records

local BAD_DATA = { 'bad_data' }
local state = redis.pcall('HGETALL', KEYS[1])
local sentinel = redis.pcall('HGET', KEYS[2], '#')
local last = redis.pcall('XREVRANGE', KEYS[3], '+', '-', 'COUNT', 1)
if state.err or (type(sentinel) == 'table' and sentinel.err) or last.err then
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
local cursor, entry, fields = ARGV[3], last[1] and last[1][1] or '', redis.call('HLEN', KEYS[2])
if cursor ~= '0' and (entry ~= ARGV[4] or fields ~= tonumber(ARGV[5])) then
  return { 'moved' }
end
local seen, most, deducted = tonumber(ARGV[6]), tonumber(ARGV[2]), {}
for index = 7, #ARGV, 2 do
  deducted[ARGV[index]] = exact(ARGV[index + 1])
end

local read = 0
repeat
  local page = redis.call('HSCAN', KEYS[2], cursor, 'COUNT', math.min(most, 500))
  cursor = page[1]
  read = read + #page[2] / 2
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
until cursor == '0' or read >= most
seen = seen + read
if cursor ~= '0' then
  local reply = { 'page', cursor, entry, fields, seen }
  for sku, units in pairs(deducted) do
    reply[#reply + 1] = sku
    reply[#reply + 1] = string.format('%d', units)
  end
  return reply
end
if seen ~= fields then
  return { 'moved' }
end
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
