-- How a session leaves: drain (asked to end), finish (terminal), return_to_line (involuntary).
-- Needs: recent, deadlines, slots, gaps, holds.
local COUNT_LIMIT = 6
local ENDS_AS = {accept_timeout = 'join_timeout', join_failed = 'join_timeout',
  join_timeout = 'join_timeout', start_timeout = 'start_timeout'}

local function drop_image(sid)
  local bytes = redis.call('STRLEN', key('a', sid))
  if bytes > 0 then
    redis.call('DEL', key('a', sid))
    redis.call('HINCRBY', CTR, 'image_bytes', -bytes)
  end
end

-- Ended sessions stay listed as long as their records stay. A few old ones leave with each new one.
local function note_end(sid)
  local old = redis.call('ZRANGE', key('ended'), '-inf', now - RETENTION_MS, 'BYSCORE', 'LIMIT', 0, 8)
  for _, other in ipairs(old) do redis.call('ZREM', key('ended'), other) end
  redis.call('ZADD', key('ended'), redis.call('HGET', key('s', sid), 'ver'), sid)
  redis.call('PEXPIRE', key('ended'), RETENTION_MS)
end

-- Make a live session terminal, once; its texts stay readable for an hour. Returns the reason.
local function finish(sid, reason, error_text, quarantine)
  local record = key('s', sid)
  local s = redis.call('HMGET', record, 'state', 'node', 'epoch', 'reason', 'idem', 'idh')
  if s[4] then reason = s[4] end                -- the first reason given stays
  redis.call('ZREM', key('q'), sid)
  if not quarantine then learn_hold(sid, reason) end
  free_slot(text(s[2]), sid, text(s[3]), quarantine)
  note_vacancy(text(s[2]), sid, rt)
  drop_image(sid)
  local no_deadlines = {}
  for _, kind in ipairs(DEADLINES) do no_deadlines[kind] = false end
  set_deadlines(sid, no_deadlines)
  redis.call('HSET', record, 'state', ENDED_AS[reason] or 'failed', 'reason', reason, 'ended', now)
  if error_text and error_text ~= '' then redis.call('HSET', key('sd', sid), 'error', error_text) end
  for _, kind in ipairs({'s', 'sd', 'sp'}) do redis.call('PEXPIRE', key(kind, sid), RETENTION_MS) end
  if s[5] then redis.call('PEXPIRE', key('idem', s[5]), RETENTION_MS) end
  if s[6] then redis.call('ZREM', key('id', s[6]), sid) end
  changed(sid, 'ended', s[2], s[3], reason)
  note_end(sid)
  total('ended_' .. reason)
  return reason
end

-- Ask a resident session to end: the slot stays taken until the node confirms.
local function drain(sid, reason)
  local record = key('s', sid)
  local s = redis.call('HMGET', record, 'node', 'epoch', 'd_draining')
  set_deadlines(sid, {assigned = false, joining = false, controller = false, room_empty = false,
    starting = false, session = false, draining = due(s[3])})
  redis.call('HSET', record, 'state', 'draining', 'reason', reason)
  changed(sid, 'draining', s[1], s[2], reason)
  hint(s[1], 'stop', sid, s[2])
end

-- Back to the line with the old ticket and a new epoch, or to its end if it has come back too often
-- or was ending anyway. lost_at: registry time from which on its limit is paused, if it ever ran; unseen_ms: for
-- how long before that nothing was seen of it. Returns 'returned' or 'ended', and the new epoch or the reason.
local function return_to_line(sid, why, weight, lost_at, quarantine, unseen_ms)
  local record = key('s', sid)
  local s = redis.call('HMGET', record, 'state', 'node', 'epoch', 'ticket', 'counts', 'd_queued', 't_session',
    'left', 'assigned_rt', 'attempt')
  if s[1] == 'draining' then
    return 'ended', finish(sid, nil, nil, quarantine)
  end
  local counts, count = recent(s[5]), weight
  for _, entry in ipairs(counts) do count = count + tonumber(entry[2]) end
  if count >= COUNT_LIMIT then
    return 'ended', finish(sid, ENDS_AS[why] or 'recovery_limit', nil, quarantine)
  end
  local at_least = number(s[9])
  local served_until = s[1] ~= 'running' and s[9] and at_least or math.max(lost_at, at_least)
  local left = s[7] and math.max(tonumber(s[7]) - served_until, 0) or s[8]
  free_slot(text(s[2]), sid, text(s[3]), quarantine)
  local seen_until = math.max(served_until - (unseen_ms or 0), at_least)
  note_vacancy(text(s[2]), sid, seen_until)
  note_loss(sid, seen_until, why)
  local epoch = next_number('epoch')
  local news = {'state', 'queued', 'node', '', 'avoid', s[2], 'epoch', epoch, 'back', why, 'queued_rt', rt,
    'attempt', number(s[10]) + 1}
  if left then
    news[#news + 1] = 'left'
    news[#news + 1] = left
  end
  if weight > 0 then
    news[#news + 1] = 'counts'
    news[#news + 1] = with_one_more(counts, weight)
  end
  redis.call('HSET', record, unpack(news))
  redis.call('HDEL', record, 'acked', 'connected', 'controller', 'participants', 'rebased', 'credited', 'handed')
  set_deadlines(sid, {assigned = false, joining = false, controller = false, room_empty = false,
    starting = false, session = false, queued = due(s[6])})
  redis.call('ZADD', key('q'), s[4], sid)
  changed(sid, 'returned', s[2], epoch, why)
  total('returned_' .. why)
  return 'returned', epoch
end
