#!lua flags=allow-oom
-- Write down what an admin did, to what, and how it went.
-- Guarantee: one entry of the audit trail for one act, as long as a repeat comes soon; nothing else
-- changes.
-- KEYS: prefix
-- ARGV: now_ms, act_id, act, subject, who, outcome
-- Touches: ev
-- Replies: noted
-- Fields: none
-- Publishes: nothing
-- Include: core
local REPEATED_WITHIN = 16                        -- entries

for _, entry in ipairs(redis.call('XREVRANGE', key('ev'), '+', '-', 'COUNT', REPEATED_WITHIN)) do
  local fields = entry[2]
  if fields[2] == 'act' and fields[#fields] == act_id then return {'noted'} end
end
redis.call('XADD', key('ev'), 'MAXLEN', '~', EVENTS_KEPT, '*', 'what', 'act', 'at', now, 'who', who,
  'on', subject, 'why', act .. ': ' .. outcome, 'act', act_id)
return {'noted'}
