#!lua flags=allow-oom
-- Take a session out of the line on behalf of an operator; one that was served meanwhile is left alone.
-- Guarantee: ends only who still waits, in this step.
-- KEYS: prefix
-- ARGV: now_ms, session_id, reason
-- Touches: q, s:<sid>, sd:<sid>, sp:<sid>, a:<sid>, idem:<hash>, dl, ctr, ev, ended, id:<hash>
-- Replies: ended, already, served, gone
-- Fields: the session (include/record.lua); none for gone
-- Publishes: r:<replica>
-- Include: core, generation, recent, deadlines, slots, gaps, holds, ending, record
local state = redis.call('HGET', key('s', session_id), 'state')
if not state then return {'gone'} end
if state ~= 'queued' then
  local is_served = state == 'draining' or MAY_BECOME.draining[state]
  return {is_served and 'served' or 'already', session_fields(session_id)}
end

keep_registry_time()
finish(session_id, reason, nil, false)
return {'ended', session_fields(session_id)}
