-- How a session leaves: drain (asked to end), finish (terminal), return_to_line (involuntary).
-- Needs: deadlines, slots, holds.
local COUNT_LIMIT, COUNT_WINDOW_MS = 6, 600000
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
  local s = redis.call('HMGET', record, 'state', 'node', 'epoch', 'reason', 'idem')
  if s[4] then reason = s[4] end                -- the first reason given stays
  redis.call('ZREM', key('q'), sid)
  if not quarantine then learn_hold(sid, reason) end
  free_slot(text(s[2]), sid, text(s[3]), quarantine)
  drop_image(sid)
  local no_deadlines = {}
  for _, kind in ipairs(DEADLINES) do no_deadlines[kind] = false end
  set_deadlines(sid, no_deadlines)
  redis.call('HSET', record, 'state', ENDED_AS[reason] or 'failed', 'reason', reason, 'ended', now)
  if error_text and error_text ~= '' then redis.call('HSET', key('sd', sid), 'error', error_text) end
  for _, kind in ipairs({'s', 'sd', 'sp'}) do redis.call('PEXPIRE', key(kind, sid), RETENTION_MS) end
  if s[5] then redis.call('PEXPIRE', key('idem', s[5]), RETENTION_MS) end
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
-- or was ending anyway. lost_at: registry time when it stopped being served; its limit is paused
-- from then on. Returns 'returned' or 'ended', and the new epoch or the reason.
local function return_to_line(sid, why, weight, lost_at, quarantine)
  local record = key('s', sid)
  local s = redis.call('HMGET', record, 'state', 'node', 'epoch', 'ticket', 'count', 'counted',
    'd_queued', 't_session', 'left', 'assigned_rt')
  if s[1] == 'draining' then
    return 'ended', finish(sid, nil, nil, quarantine)
  end
  local count = weight
  if rt - number(s[6]) < COUNT_WINDOW_MS then count = number(s[5]) + weight end
  if count >= COUNT_LIMIT then
    return 'ended', finish(sid, ENDS_AS[why] or 'recovery_limit', nil, quarantine)
  end
  local served_until = math.max(lost_at, number(s[10]))
  local left = s[8] and math.max(tonumber(s[8]) - served_until, 0) or s[9]
  free_slot(text(s[2]), sid, text(s[3]), quarantine)
  local epoch = next_number('epoch')
  redis.call('HSET', record, 'state', 'queued', 'node', '', 'avoid', s[2], 'epoch', epoch,
    'count', count, 'back', why, 'queued_rt', rt)
  if weight > 0 then redis.call('HSET', record, 'counted', rt) end
  redis.call('HINCRBY', record, 'attempt', 1)
  if left then redis.call('HSET', record, 'left', left) end
  redis.call('HDEL', record, 'acked', 'connected', 'controller', 'participants')
  set_deadlines(sid, {assigned = false, joining = false, controller = false, room_empty = false,
    starting = false, session = false, queued = due(s[7])})
  redis.call('ZADD', key('q'), s[4], sid)
  changed(sid, 'returned', s[2], epoch, why)
  total('returned_' .. why)
  return 'returned', epoch
end

-- Why a death or failure counts two: the session was alone in what died, or the only one starting.
local function death_weight(sid, mates)
  local s = redis.call('HMGET', key('s', sid), 'state', 'acked')
  if s[1] == 'assigned' or not s[2] then return 0 end
  if mates.all == 1 or (s[1] == 'starting_pipeline' and mates.starting == 1) then return 2 end
  return 1
end
