-- The one dispatch point: the head of the line steps onto the least used live node.
-- Needs: deadlines, slots.
local NODES_LOOKED_AT = 16

-- The first free node that is alive; not the one that just lost this session if another is free.
local function pick_node(avoid)
  local last, silent
  repeat
    silent = false
    for _, nid in ipairs(redis.call('ZRANGE', key('free'), 0, NODES_LOOKED_AT - 1)) do
      if number(redis.call('ZSCORE', key('nodes'), nid)) <= rt then
        redis.call('ZREM', key('free'), nid)    -- the sweep will declare it dead
        silent = true
      elseif nid == avoid then
        last = nid
      else
        return nid
      end
    end
  until not silent                              -- they may have hidden one that is alive
  return last
end

-- One more duration of this kind: into its bucket, and to the sum of all.
local function count_duration(name, ms)
  local bucket = 'inf'
  for _, bound in ipairs(DURATION_BOUNDS_MS) do
    if ms <= bound[2] then
      bucket = bound[1]
      break
    end
  end
  total(name .. '_le_' .. bucket)
  redis.call('HINCRBY', CTR, 'n_' .. name .. '_ms', ms)
end

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

local function assign(sid, nid)
  local record = key('s', sid)
  local s = redis.call('HMGET', record, 'ticket', 'd_assigned', 'd_session', 'left', 'admitted',
    'queued_rt', 'promised')
  local epoch = next_number('epoch')
  redis.call('ZREM', key('q'), sid)
  redis.call('ZADD', key('ns', nid), epoch, sid)
  redis.call('HSET', record, 'state', 'assigned', 'node', nid, 'epoch', epoch, 'assigned', now,
    'assigned_rt', rt)
  local deadlines = {queued = false, assigned = due(s[2])}
  if not s[5] then                              -- the session limit runs from the first admission
    redis.call('HSET', record, 'admitted', now)
    deadlines.session = due(s[3])
  end
  set_deadlines(sid, deadlines)
  redis.call('HSET', CTR, 'top', math.max(number(redis.call('HGET', CTR, 'top')), tonumber(s[1])))
  refresh_free(nid)
  changed(sid, 'assigned', nid, epoch, '')
  total('assigned')
  count_wait(s[6], s[5], s[7])
  hint(nid, 'assign', sid, epoch)
end

local function dispatch(budget)
  for _ = 1, budget do
    local sid = redis.call('ZRANGE', key('q'), 0, 0)[1]
    if not sid then return end
    local s = redis.call('HMGET', key('s', sid), 'ticket', 'avoid')
    if s[1] then
      local nid = pick_node(s[2])
      if not nid then return end
      assign(sid, nid)
    else
      redis.call('ZREM', key('q'), sid)         -- no record: it must not stop the line
    end
  end
end
