#!lua
-- Keep a session's image until the session is opened (which then owns it) or a minute has passed.
-- KEYS: prefix
-- ARGV: now_ms, session_id, image, budget_bytes
-- Touches: a:<sid>, s:<sid>, ctr
-- Replies: ok, over
-- Fields: none
-- Publishes: nothing
-- Include: core
local UNCLAIMED_MS = 60000
if redis.call('EXISTS', key('s', session_id)) == 1 then return {'ok'} end   -- a late repeat
local held = number(redis.call('HGET', CTR, 'image_bytes'))
if held + #image > tonumber(budget_bytes) then return {'over'} end
redis.call('SET', key('a', session_id), image, 'PX', UNCLAIMED_MS)
return {'ok'}
