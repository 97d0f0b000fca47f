#!lua flags=allow-oom
-- Fire the deadlines that have passed. Only this script fires them.
-- Guarantee: each fires once; at most `budget` sessions per call.
-- KEYS: prefix
-- ARGV: now_ms, budget
-- Touches: q, s:<sid>, sd:<sid>, sp:<sid>, a:<sid>, idem:<hash>, n:<nid>, ns:<nid>, nodes, free, dl, ctr, ev, holds, ended, id:<hash>
-- Replies: done, more
-- Fields: returned {sid, epoch, why}, ended {sid, reason, why}, suspects {sid, version, lease}: waiting ones whose client was silent
-- Publishes: w:<nid> assign, stop; r:<replica>
-- Include: core, generation, recent, deadlines, slots, gaps, holds, blame, ending, durations, choice, dispatch
local DISPATCH_BUDGET, ASK_AGAIN_MS = 64, 10000
local SILENT_SHARE, LOOK_AGAIN_MS = 0.5, 1000     -- of a lease: two beats are missing

keep_registry_time()
local returned, ended, suspects = {}, {}, {}

local function note(sid, why, outcome, detail)
  local list = outcome == 'returned' and returned or ended
  list[#list + 1] = {sid, text(detail), why}
end

-- The node doesn't answer for this session: it goes elsewhere, its slot is kept until it is surely empty.
local function take_back(sid, why, is_nodes_fault)
  local s = redis.call('HMGET', key('s', sid), 'node', 'assigned_rt')
  local beaten = number(redis.call('HGET', key('n', s[1]), 'beat')) > number(s[2])
  if is_nodes_fault and beaten then strike(s[1]) end
  note(sid, why, return_to_line(sid, why, beaten and failure_weight(sid, s[1]) or 0, rt, true))
end

-- Silence of a waiting client is only a suspicion (R10): whoever sweeps looks into the room and settles it.
-- Should that one be gone by then, a later sweep asks again.
local function suspect(sid)
  set_deadlines(sid, {queued = rt + ASK_AGAIN_MS})
  suspects[#suspects + 1] = {sid, text(redis.call('HGET', key('s', sid), 'ver')), text(rt + ASK_AGAIN_MS)}
end

-- A node that is silent now may be dead: then the seconds since its last beat are the user's own.
local function end_of_limit(sid)
  local n = redis.call('HMGET', key('n', redis.call('HGET', key('s', sid), 'node')), 'beat', 'ttl')
  if rt - number(n[1]) > number(n[2]) * SILENT_SHARE then
    set_deadlines(sid, {session = rt + LOOK_AGAIN_MS})
  else
    drain(sid, 'session_timeout')
  end
end

local FIRE = {
  queued = suspect,
  assigned = function(sid) take_back(sid, 'accept_timeout', true) end,
  joining = function(sid) take_back(sid, 'join_timeout', true) end,
  starting = function(sid) take_back(sid, 'start_timeout', false) end,
  controller = function(sid) drain(sid, 'controller_timeout') end,
  room_empty = function(sid) drain(sid, 'room_empty') end,
  session = end_of_limit,
  draining = function(sid) note(sid, 'draining', 'ended', finish(sid, nil, nil, true)) end,
}

local budget_left = tonumber(budget)
local due_now = in_grace() and {} or redis.call('ZRANGEBYSCORE', key('dl'), '-inf', rt, 'LIMIT', 0, budget_left + 1)
for i, sid in ipairs(due_now) do
  if i > budget_left then break end
  local first, at = nil, read_deadlines(sid)
  for _, kind in ipairs(DEADLINES) do
    if at[kind] and at[kind] <= rt and (not first or at[kind] < at[first]) then first = kind end
  end
  if first then
    FIRE[first](sid)
  else
    redis.call('ZREM', key('dl'), sid)          -- nothing is due: an entry without a deadline
  end
end
dispatch(DISPATCH_BUDGET)
return {#due_now > budget_left and 'more' or 'done', returned, ended, suspects}
