#!lua flags=allow-oom
-- Gives a lock up, if it is still this owner's: after the lease ran out it may be another one's.
--
-- KEYS  1 lock
-- ARGV  1 owner
-- Outcomes
--   lost       it ran out, or somebody else has it: nothing was changed
--   released

local holder = redis.pcall('GET', KEYS[1])
if holder ~= ARGV[1] then
  return { 'lost' }
end
redis.call('DEL', KEYS[1])
return { 'released' }
