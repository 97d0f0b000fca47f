#!lua flags=allow-oom
-- Tell how sessions stand, and take the question as a sign of life of those that wait.
-- Guarantee: creates nothing; unknown sessions are left out of the answer.
-- KEYS: prefix
-- ARGV: now_ms, session_ids
-- Touches: s:<sid>, sd:<sid>, q, dl, ctr
-- Replies: ok
-- Fields: one per known session (include/record.lua)
-- Publishes: nothing
-- Include: core, deadlines, record
local reply = {'ok'}
for sid in string.gmatch(session_ids, '%S+') do
  local s = redis.call('HMGET', key('s', sid), 'state', 'd_queued')
  if s[1] == 'queued' and due(s[2]) then
    keep_registry_time()
    set_deadlines(sid, {queued = due(s[2])})
  end
  local fields = session_fields(sid)
  if fields then reply[#reply + 1] = fields end
end
return reply
