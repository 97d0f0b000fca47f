#!lua flags=allow-oom
-- End a session on behalf of its owner or an operator.
-- Guarantee: a waiting one ends in this step; a resident one keeps its slot until its node confirms.
-- KEYS: prefix
-- ARGV: now_ms, session_id, reason
-- Touches: q, s:<sid>, sd:<sid>, sp:<sid>, a:<sid>, idem:<hash>, n:<nid>, ns:<nid>, nodes, free, dl, ctr, ev, holds, ended, id:<hash>
-- Replies: ended, draining, already, gone
-- Fields: the session (include/record.lua); none for gone
-- Publishes: w:<nid> stop; r:<replica>
-- Include: core, generation, recent, deadlines, slots, gaps, holds, ending, record
local state = redis.call('HGET', key('s', session_id), 'state')
if not state then return {'gone'} end
if not MAY_BECOME.draining[state] then return {'already', session_fields(session_id)} end

keep_registry_time()
if state == 'queued' then
  finish(session_id, reason, nil, false)
  return {'ended', session_fields(session_id)}
end
drain(session_id, reason)
return {'draining', session_fields(session_id)}
