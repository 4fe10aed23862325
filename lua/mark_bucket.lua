#!lua flags=no-writes
-- Where a bucket stands: the run id of the node that answers, which is another one after a failover, a
-- restart or a move of the slot, and the last entry of the ledger.
--
-- KEYS  1 bucket  2 orders  3 ledger
-- ARGV  1 the last entry at or before this time (ms), or of all ('')
-- Outcomes
--   bad_data               a key of another type
--   mark, run id, entry    entry is '' without a ledger; the first one when none is so old

local upto = ARGV[1] == '' and '+' or ARGV[1]
local last = redis.pcall('XREVRANGE', KEYS[3], upto, '-', 'COUNT', 1)
if last.err then
  return { 'bad_data' }
end
if not last[1] then
  last = redis.call('XRANGE', KEYS[3], '-', '+', 'COUNT', 1)
end
-- A service that hides INFO answers an error: then a failover shows only in what it lost.
local info = redis.pcall('INFO', 'server')
local node = type(info) == 'string' and string.match(info, 'run_id:(%x+)') or ''
return { 'mark', node, last[1] and last[1][1] or '' }
