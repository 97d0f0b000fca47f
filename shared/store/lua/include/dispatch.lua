-- The one dispatch point: the head of the line steps onto the least used live node.
-- Needs: generation, durations, deadlines, slots, gaps, choice.

-- How far off was what the client was told when it came (milliseconds: middle, low, high)?
local function count_estimate(promised, waited)
  local middle, low, high = string.match(promised, '^(%d+) (%d+) (%d+)$')
  local off = waited - tonumber(middle)
  count_duration(off < 0 and 'estimate_sooner' or 'estimate_later', math.abs(off))
  local outcome = waited < tonumber(low) and 'sooner' or waited > tonumber(high) and 'later' or 'within'
  total('estimated_' .. outcome)
end

local function count_wait(since, was_admitted, promised)
  if not since then return end
  local waited = math.max(rt - tonumber(since), 0)
  count_duration(was_admitted and 'readmission' or 'wait', waited)
  if promised and not was_admitted then count_estimate(promised, waited) end
end

-- What the head of the line is known by; false without a record.
local function read_waiting(sid)
  local s = redis.call('HMGET', key('s', sid), 'ticket', 'avoid', 'mates', 'counts', 'd_assigned', 'd_session',
    'admitted', 'queued_rt', 'promised')
  return s[1] and {ticket = s[1], avoid = s[2], mates = s[3], counts = s[4], d_assigned = s[5],
    d_session = s[6], admitted = s[7], queued_rt = s[8], promised = s[9]}
end

local function assign(sid, s, nid)
  local epoch = next_number('epoch')
  redis.call('ZREM', key('q'), sid)
  redis.call('ZADD', key('ns', nid), epoch, sid)
  redis.call('HSET', key('s', sid), 'state', 'assigned', 'node', nid, 'epoch', epoch, 'assigned', now,
    'assigned_rt', rt, 'admitted', s.admitted or now)
  local deadlines = {queued = false, assigned = due(s.d_assigned)}
  if not s.admitted then deadlines.session = due(s.d_session) end   -- it runs from the first admission
  set_deadlines(sid, deadlines)
  fold_number('top', s.ticket)
  take_vacancy(nid, sid, s.queued_rt)
  refresh_free(nid)
  changed(sid, 'assigned', nid, epoch, '')
  total('assigned')
  count_wait(s.queued_rt, s.admitted, s.promised)
  hint(nid, 'assign', sid, epoch)
end

local function dispatch(budget)
  if is_held() then return end
  if pool.hold then
    pool.hold = nil
    redis.call('HDEL', CTR, 'hold')
  end
  if not is_any_free() then return end            -- as mostly, where many wait
  for _ = 1, budget do
    local sid = redis.call('ZRANGE', key('q'), 0, 0)[1]
    if not sid then return end
    local s = read_waiting(sid)
    if s then
      local disliked = dislikes_of(sid, s.avoid, s.mates, s.counts)
      local nid = pick_node(disliked)
      if not nid then return end
      assign(sid, s, nid)
      note_choice(nid, disliked)
    else
      redis.call('ZREM', key('q'), sid)         -- no record: it must not stop the line
    end
  end
end
