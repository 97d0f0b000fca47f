#!lua flags=allow-oom
-- Take an API key away for good.
-- Guarantee: no replica that reads the keys after this call takes it for valid.
-- KEYS: prefix
-- ARGV: now_ms, key_id, who
-- Touches: keys, ev
-- Replies: revoked, gone
-- Fields: none
-- Publishes: nothing
-- Include: core
if redis.call('HEXISTS', key('keys'), key_id) == 0 then return {'gone'} end
redis.call('HDEL', key('keys'), key_id)
redis.call('XADD', key('ev'), 'MAXLEN', '~', EVENTS_KEPT, '*', 'what', 'key_revoked', 'at', now, 'who', who,
  'on', key_id)
return {'revoked'}
