#!lua flags=allow-oom
-- Tell how sessions stand, and take the question as a sign of life of those that wait.
-- Guarantee: creates nothing; unknown sessions are left out of the answer.
-- KEYS: prefix
-- ARGV: now_ms, session_ids, replica
-- Touches: s:<sid>, sd:<sid>, q, dl, ctr
-- Replies: ok
-- Fields: one per known session (include/record.lua)
-- Publishes: nothing
-- Include: core, deadlines, record
local REPLICAS_TOLD = 3

-- The replica has a client that follows the session: from now on it gets a hint at each change.
local function remember_replica(record, told)
  local names = {replica}
  for name in string.gmatch(text(told), '%S+') do
    if name == replica then return end
    if #names < REPLICAS_TOLD then names[#names + 1] = name end
  end
  redis.call('HSET', record, 'watch', table.concat(names, ' '))
end

local reply = {'ok'}
for sid in string.gmatch(session_ids, '%S+') do
  local s = redis.call('HMGET', key('s', sid), 'state', 'd_queued', 'watch')
  if s[1] == 'queued' and due(s[2]) then
    keep_registry_time()
    set_deadlines(sid, {queued = due(s[2])})
  end
  local is_live = s[1] == 'draining' or MAY_BECOME.draining[s[1] or '']
  if replica ~= '' and is_live then remember_replica(key('s', sid), s[3]) end
  local fields = session_fields(sid)
  if fields then reply[#reply + 1] = fields end
end
return reply
