#!lua flags=allow-oom
-- Remember how long a wait was promised, so that the first admission can tell how far off that was.
-- Guarantee: the first promise stays; who doesn't wait for the first time is left alone.
-- KEYS: prefix
-- ARGV: now_ms, session_id, middle_ms, low_ms, high_ms
-- Touches: s:<sid>, ctr
-- Replies: noted, already
-- Fields: none
-- Publishes: nothing
-- Include: core
local record = key('s', session_id)
local s = redis.call('HMGET', record, 'state', 'admitted', 'promised')
if s[1] ~= 'queued' or s[2] or s[3] then return {'already'} end

redis.call('HSET', record, 'promised', middle_ms .. ' ' .. low_ms .. ' ' .. high_ms)
return {'noted'}
