-- Which slots of a node are taken: membership of ns:<nid>, never a counter. Needs: generation, recent.
local STRIKE_REST_MS, STRIKE_REST_MAX_MS, SUSPECT_REST_MS = 5000, 20000, 30000
local STRIKES_UNTIL_SUSPECT = 3
local USABLE = {idle = true, busy = true}

-- All that is resident there: members, quarantined ones, and what the node lists beyond them (R6): a
-- session that is still to be adopted, or leftovers of one that belongs elsewhere.
local function used_slots(nid, strangers)
  return redis.call('ZCARD', key('ns', nid)) + strangers
end

-- What the line may use of a node: what it reports, unless an operator allows less.
local function allowed_capacity(reported, admin)
  return math.min(number(reported), tonumber(admin or nil) or math.huge)
end

-- How many slots a node offers to the line, taken or not: 0 while it may not be given a session. And
-- until when it rests, which is soon over; and how many sessions it lists beyond its members.
local function serving_capacity(nid)
  local n = redis.call('HMGET', key('n', nid), 'state', 'capacity', 'draining', 'media_ok', 'rest',
    'admin', 'gen', 'strangers', 'admin_capacity')
  local alive = number(redis.call('ZSCORE', key('nodes'), nid)) > rt
  local is_fit = alive and USABLE[n[1] or ''] and n[3] == '0' and n[4] == '1' and n[6] ~= 'draining'
    and is_of_this_generation(n[7])
  return is_fit and allowed_capacity(n[2], n[9]) or 0, number(n[5]), number(n[8])
end

local is_gone = {}                -- nodes that left in this call: they are out of `free` for good
local has_freed = false           -- whether this call has put a node into `free`

-- Recompute a node's entry in `free`: the only writer of that key.
local function refresh_free(nid)
  if is_gone[nid] then return end
  local capacity, rests_until, strangers = serving_capacity(nid)
  local used = used_slots(nid, strangers)
  if used < capacity and rests_until <= rt then
    redis.call('ZADD', key('free'), used / capacity, nid)
    has_freed = true
  else
    redis.call('ZREM', key('free'), nid)
  end
end

local function is_any_free()
  return has_freed or redis.call('EXISTS', key('free')) == 1
end

-- A failure that points at the node: it rests, longer each time, and is suspect at the third.
local function strike(nid)
  local record = key('n', nid)
  if redis.call('EXISTS', record) == 0 then return end
  local struck = recent(redis.call('HGET', record, 'struck'))
  local strikes = math.min(#struck + 1, ENTRIES_KEPT)
  local rest = math.min(STRIKE_REST_MS * strikes, STRIKE_REST_MAX_MS)
  if strikes >= STRIKES_UNTIL_SUSPECT then rest = SUSPECT_REST_MS end
  redis.call('HSET', record, 'strikes', strikes, 'struck', with_one_more(struck, 1), 'rest', rt + rest,
    'judged', strikes >= STRIKES_UNTIL_SUSPECT and 'suspect' or 'ok')
  refresh_free(nid)
end

local function clear_strikes(nid)
  redis.call('HSET', key('n', nid), 'strikes', 0, 'rest', 0, 'judged', 'ok')
  redis.call('HDEL', key('n', nid), 'struck')
  refresh_free(nid)
end

-- The member leaves, or stays taken as !<sid> until the node confirms that nothing is left of it:
-- then it must be missing from a beat with a later stamp than any that is on its way now.
local function free_slot(nid, sid, epoch, quarantine)
  if nid == '' then return end
  redis.call('ZREM', key('ns', nid), sid)
  if quarantine and redis.call('ZSCORE', key('nodes'), nid) then
    redis.call('ZADD', key('ns', nid), epoch, '!' .. sid)
    redis.call('HSET', key('n', nid), '!' .. sid, number(redis.call('HGET', key('n', nid), 'stamp')) + 1)
  end
  refresh_free(nid)
end

local function release_quarantine(nid, sid)
  redis.call('ZREM', key('ns', nid), '!' .. sid)
  redis.call('HDEL', key('n', nid), '!' .. sid)
  refresh_free(nid)
end
