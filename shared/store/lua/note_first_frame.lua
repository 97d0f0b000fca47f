#!lua flags=allow-oom
-- Note when the first frame of an assignment was played: the user's play clock starts there.
-- Guarantee: once per epoch, by the exact owner; a repeat changes nothing.
-- KEYS: prefix
-- ARGV: now_ms, node_id, incarnation, session_id, epoch
-- Touches: s:<sid>, n:<nid>, free, ctr, ev
-- Replies: noted, already, fenced
-- Fields: none
-- Publishes: r:<replica>
-- Include: core, generation, owner
local sid, record = session_id, key('s', session_id)
if not owns(node_id, incarnation, sid, epoch) then return {'fenced'} end
local s = redis.call('HMGET', record, 'state', 'first_frame_epoch')
if s[2] == epoch then return {'already'} end
if s[1] ~= 'running' then return {'fenced'} end

keep_registry_time()
redis.call('HSET', record, 'first_frame', now, 'first_frame_epoch', epoch)
changed(sid, 'first_frame', node_id, epoch, '')
return {'noted'}
