#!lua flags=allow-oom
-- Give a session an epoch above one that its worker met in its room: the registry had lost that number (R5).
-- Guarantee: only for the exact owner, never in a grace (a node with the higher epoch may still adopt the
-- session then); the epoch before stays good for asking again, and in its node's beats.
-- KEYS: prefix
-- ARGV: now_ms, node_id, incarnation, session_id, epoch, seen
-- Touches: s:<sid>, n:<nid>, ns:<nid>, free, ctr, ev
-- Replies: rebased, wait, fenced
-- Fields: rebased: the epoch from now on
-- Publishes: r:<replica>
-- Include: core, generation, owner
local sid, record = session_id, key('s', session_id)
local s = redis.call('HMGET', record, 'node', 'epoch', 'rebased')
if s[1] == node_id and s[3] == epoch and redis.call('HGET', key('n', node_id), 'inc') == incarnation then
  return {'rebased', s[2]}
end
if not owns(node_id, incarnation, sid, epoch) or redis.call('ZSCORE', key('ns', node_id), sid) ~= epoch then
  return {'fenced'}
end
if tonumber(epoch) > tonumber(seen) then return {'rebased', epoch} end

keep_registry_time()                            -- this may be the call that notices another run of the server
if in_grace() then return {'wait'} end
fold_number('epoch', seen)
local above = next_number('epoch')
redis.call('ZADD', key('ns', node_id), above, sid)
redis.call('HSET', record, 'epoch', above, 'rebased', epoch)
changed(sid, 'rebased', node_id, above, '')
total('rebased')
return {'rebased', text(above)}
