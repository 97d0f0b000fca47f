#!lua
-- Let one more API key in.
-- Guarantee: an id is given once; what is kept of the key can't be turned back into it. The same call
-- again adds nothing.
-- KEYS: prefix
-- ARGV: now_ms, key_id, record, told, who, most
-- Touches: keys, ev
-- Replies: added, taken, full
-- Fields: none
-- Publishes: nothing
-- Include: core
local known = redis.call('HGET', key('keys'), key_id)
if known == record then return {'added'} end
if known then return {'taken'} end
if #redis.call('HGETALL', key('keys')) / 2 >= tonumber(most) then return {'full'} end
redis.call('HSET', key('keys'), key_id, record)
redis.call('XADD', key('ev'), 'MAXLEN', '~', EVENTS_KEPT, '*', 'what', 'key_added', 'at', now, 'who', who,
  'on', key_id, 'why', told)
return {'added'}
