#!lua
-- Counts one token for a buyer, in windows that begin with the first token.
--
-- KEYS  1 tokens
-- ARGV  1 most tokens per window  2 length of the window (ms)
-- Outcomes
--   bad_data           the counter cannot be read
--   wait, seconds      too many: when the window ends, in whole seconds, at least 1
--   allowed

-- include: records

local counted = redis.pcall('GET', KEYS[1])
if type(counted) == 'table' then
  return { 'bad_data' }
end
local tokens = exact(string.match(counted or '0', '^%d+$'))
if not tokens then
  return { 'bad_data' }
end
if tokens >= tonumber(ARGV[1]) then
  local left_ms = redis.call('PTTL', KEYS[1])
  if left_ms < 0 then
    left_ms = tonumber(ARGV[2])
    -- A counter that never ends would lock the buyer out for good.
    redis.call('PEXPIRE', KEYS[1], left_ms)
  end
  return { 'wait', math.max(1, math.ceil(left_ms / 1000)) }
end
if counted and redis.call('PTTL', KEYS[1]) > 0 then
  redis.call('INCR', KEYS[1])
else
  redis.call('SET', KEYS[1], tokens + 1, 'PX', ARGV[2])
end
return { 'allowed' }
