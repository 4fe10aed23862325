-- What the scripts share: the texts of counters, records and marks. They are read strictly: a reader
-- answers nil for whatever it does not know, so that bad data is an outcome before anything is written.

-- Entries that a bucket's ledger keeps, about.
local LEDGER_ENTRIES = '10000'
-- `version|start (ms)|end (ms)|orders per second` of a configuration.
local CONTROL = '^(%d+)|(%d+)|(%d+)|(%d+)$'
-- `second|orders admitted in it`.
local ADMITTED = '^(%d+)|(%d+)$'
-- `free|sold|on sale (1 or 0)|allotted|version` of a SKU. What a deduction leaves alone is one text.
local SKU = '^(%-?%d+)|(%-?%d+)(|([01])|%d+|%d+)$'
local SKU_WHOLE = '^(%-?%d+)|(%-?%d+)|([01])|(%d+)|(%d+)$'

-- The number that digits stand for, below 2^53: from there on Lua's numbers are not exact, and a
-- greater one would be read as a neighbour.
local function exact(digits)
  local number = tonumber(digits)
  if number and number < 9007199254740992 and number > -9007199254740992 then
    return number
  end
  return nil
end

-- `sku=units,…` as units by SKU, the list of SKUs, and all units together.
local function read_units(text)
  local units, skus, total, length = {}, {}, 0, 0
  for sku, digits in string.gmatch(text, '([%w_.%-]+)=(%d+)') do
    if #digits > 9 or units[sku] then
      return nil
    end
    units[sku] = tonumber(digits)
    skus[#skus + 1] = sku
    total = total + units[sku]
    length = length + #sku + #digits + 2
  end
  -- Every byte was understood: each pair and the comma between two.
  if math.max(length - 1, 0) ~= #text then
    return nil
  end
  return units, skus, total
end

-- `format|D or R|take|written at (ms)|lines hash|sku=units,…|placement`. The placement is opaque.
local function read_record(text)
  local side, take, at_ms, hash, held, rest =
    string.match(text, '^1|([DR])|([12])|(%d+)|([0-9a-f]*)|([^|]*)|()')
  if not side or #at_ms > 15 or (hash ~= '' and #hash ~= 32) then
    return nil
  end
  local units, skus, total = read_units(held)
  -- Without its lines a deduction could be neither replayed nor told from another one.
  if not units or (side == 'D' and (hash == '' or rest > #text)) then
    return nil
  end
  return {
    deducted = side == 'D', take = tonumber(take), rank = 2 * take - (side == 'D' and 1 or 0),
    at_ms = at_ms, hash = hash, held = held, placement = string.sub(text, rest),
    units = units, skus = skus, total = total,
  }
end

local function write_record(side, take, at_ms, hash, held, placement)
  return '1|' .. side .. '|' .. take .. '|' .. at_ms .. '|' .. hash .. '|' .. held .. '|' .. placement
end

-- `order_no=units;…`: the buyer's other orders in one scope, their units, and the units of `own`.
local function read_mark(text, own)
  local mark = { entries = {}, orders = {}, units = 0, own = nil }
  if not text then
    return mark
  end
  local length = 0
  for order_no, digits in string.gmatch(text, '(%w+)=(%d+)') do
    if #order_no ~= 26 or #digits > 9 then
      return nil
    end
    length = length + #order_no + #digits + 2
    if order_no == own then
      mark.own = tonumber(digits)
    else
      mark.entries[#mark.entries + 1] = order_no .. '=' .. digits
      mark.orders[#mark.orders + 1] = order_no
      mark.units = mark.units + tonumber(digits)
    end
  end
  if length == 0 or length - 1 ~= #text then
    return nil
  end
  return mark
end

-- Free and sold units, and the rest of the text, of every SKU named; nil when one cannot be read.
local function read_skus(bucket, skus)
  local free, sold, rest, on_sale = {}, {}, {}, {}
  if #skus == 0 then
    return free, sold, rest, on_sale
  end
  local texts = redis.pcall('HMGET', bucket, unpack(skus))
  if texts.err then
    return nil
  end
  for index, sku in ipairs(skus) do
    local free_text, sold_text, rest_text, switch = string.match(texts[index] or '', SKU)
    free[sku], sold[sku], rest[sku], on_sale[sku] = exact(free_text), exact(sold_text), rest_text, switch
    if not free[sku] or not sold[sku] then
      return nil
    end
  end
  return free, sold, rest, on_sale
end

local function write_sku(free, sold, rest)
  return string.format('%d|%d', free, sold) .. rest
end

-- The first write of a script that moves stock, because it is the only one that can still fail: on a
-- ledger of another type. `expires_ms` is needed where the orders key may not be there yet.
local function note(operation, text, expires_ms)
  local id = redis.pcall('XADD', KEYS[3], 'NOMKSTREAM', 'MAXLEN', '~', LEDGER_ENTRIES, '*', operation, text)
  if type(id) == 'table' then
    return false
  end
  if not id then
    -- There was no ledger: a new one needs a life of its own.
    redis.call('XADD', KEYS[3], '*', operation, text)
    local expires = tonumber(expires_ms or redis.call('PEXPIRETIME', KEYS[2]))
    if expires > 0 then
      redis.call('PEXPIREAT', KEYS[3], expires)
    end
  end
  return true
end

-- The time in milliseconds as a number and as text, and the second as text.
local function now_ms()
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  return now, string.format('%d', now), time[1]
end
