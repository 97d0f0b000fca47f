-- What a reply says of one session: fixed order, all text, '' for nothing. Times are wall ms.
local function session_fields(sid)
  local s = redis.call('HMGET', key('s', sid), 'state', 'ticket', 'epoch', 'ver', 'attempt', 'created',
    'updated', 'node', 't_session', 'participants', 'reason', 'back', 'left')
  if not s[1] then return false end
  local d = redis.call('HMGET', key('sd', sid), 'identity', 'pipeline_session_id', 'error')
  local position, expires = '', ''
  if s[1] == 'queued' then
    local rank = redis.call('ZRANK', key('q'), sid)
    position = rank and text(rank + 1) or ''
  elseif s[9] then
    expires = text(now + tonumber(s[9]) - rt)
  elseif s[13] and MAY_BECOME.draining[s[1]] then
    expires = text(now + tonumber(s[13]))
  end
  return {sid, s[1], text(s[2]), text(s[3]), text(s[4]), text(s[5]), text(s[6]), text(s[7]),
    text(s[8]), position, expires, text(s[10]), text(s[11]), text(s[12]), text(d[1]), text(d[2]),
    text(d[3])}
end
