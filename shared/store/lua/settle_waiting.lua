#!lua flags=allow-oom
-- Say whether the client of a silent waiting session is in its room (R10).
-- Guarantee: ends only the session as it was seen; any sign of life since then, or a change, wins.
-- KEYS: prefix
-- ARGV: now_ms, session_id, version, lease, present
-- Touches: q, s:<sid>, sd:<sid>, sp:<sid>, a:<sid>, idem:<hash>, dl, ctr, ev, ended, id:<hash>
-- Replies: abandoned, extended, moved, gone
-- Fields: none
-- Publishes: r:<replica>
-- Include: core, generation, recent, deadlines, slots, gaps, holds, ending
local s = redis.call('HMGET', key('s', session_id), 'state', 'ver', 't_queued', 'd_queued')
if not s[1] then return {'gone'} end
if s[1] ~= 'queued' or s[2] ~= version or s[3] ~= lease then return {'moved'} end

keep_registry_time()
if present == '1' then
  set_deadlines(session_id, {queued = due(s[4])})
  return {'extended'}
end
finish(session_id, 'queue_abandoned', nil, false)
return {'abandoned'}
