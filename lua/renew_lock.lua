#!lua flags=allow-oom
-- Lets the lease of a lock begin anew, if it is still this owner's.
--
-- KEYS  1 lock
-- ARGV  1 owner  2 lease (ms)
-- Outcomes
--   lost       it ran out, or somebody else has it: nothing was changed
--   renewed

local holder = redis.pcall('GET', KEYS[1])
if holder ~= ARGV[1] then
  return { 'lost' }
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return { 'renewed' }
