#!lua flags=allow-oom
-- Note how many people are in the room of a session that no worker is in the room for.
-- Guarantee: nothing else follows from it; where a node looks it is the node that counts.
-- KEYS: prefix
-- ARGV: now_ms, session_id, epoch, people
-- Touches: s:<sid>
-- Replies: noted, moved
-- Fields: none
-- Publishes: nothing
-- Include: core
local record = key('s', session_id)
local s = redis.call('HMGET', record, 'state', 'epoch')
if s[2] ~= epoch or (s[1] ~= 'queued' and s[1] ~= 'assigned') then return {'moved'} end

redis.call('HSET', record, 'participants', people)
return {'noted'}
