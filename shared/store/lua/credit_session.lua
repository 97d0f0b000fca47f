#!lua flags=allow-oom
-- Give a session back what a failure took while it stayed on its node: its limit comes later by that.
-- Guarantee: lost_ms is the sum since the session came to the node, so a repeat gives nothing twice.
-- KEYS: prefix
-- ARGV: now_ms, node_id, incarnation, session_id, epoch, lost_ms
-- Touches: s:<sid>, n:<nid>, dl, ctr, ev
-- Replies: credited, already, fenced
-- Fields: none
-- Publishes: r:<replica>
-- Include: core, generation, deadlines, owner
local sid, record = session_id, key('s', session_id)
if not owns(node_id, incarnation, sid, epoch) then return {'fenced'} end
local s = redis.call('HMGET', record, 'state', 't_session', 'credited')
if s[1] ~= 'running' then return {'fenced'} end
local more = number(lost_ms) - number(s[3])
if more <= 0 then return {'already'} end

keep_registry_time()
redis.call('HSET', record, 'credited', lost_ms)
if s[2] then set_deadlines(sid, {session = tonumber(s[2]) + more}) end
changed(sid, 'credited', node_id, epoch, tostring(more))
return {'credited'}
