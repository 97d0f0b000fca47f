#!lua flags=allow-oom
-- Fire the deadlines that have passed. Only this script fires them.
-- Guarantee: each fires once; at most `budget` sessions per call.
-- KEYS: prefix
-- ARGV: now_ms, budget
-- Touches: q, s:<sid>, sd:<sid>, sp:<sid>, a:<sid>, idem:<hash>, n:<nid>, ns:<nid>, nodes, free, dl, ctr, ev, holds, ended
-- Replies: done, more
-- Fields: returned {sid, epoch, why}, ended {sid, reason, why}
-- Publishes: w:<nid> assign, stop; r:<replica>
-- Include: core, deadlines, slots, holds, ending, dispatch
local DISPATCH_BUDGET = 64

keep_registry_time()
local returned, ended = {}, {}

local function note(sid, why, outcome, detail)
  local list = outcome == 'returned' and returned or ended
  list[#list + 1] = {sid, text(detail), why}
end

-- The node doesn't answer for this session: it goes elsewhere, its slot is kept until it is surely empty.
local function take_back(sid, why, is_nodes_fault)
  local s = redis.call('HMGET', key('s', sid), 'node', 'assigned_rt')
  local beaten = number(redis.call('HGET', key('n', s[1]), 'beat')) > number(s[2])
  if is_nodes_fault and beaten then strike(s[1]) end
  note(sid, why, return_to_line(sid, why, beaten and 2 or 0, rt, true))
end

local FIRE = {
  queued = function(sid) note(sid, 'queued', 'ended', finish(sid, 'queue_abandoned', nil, false)) end,
  assigned = function(sid) take_back(sid, 'accept_timeout', true) end,
  joining = function(sid) take_back(sid, 'join_timeout', true) end,
  starting = function(sid) take_back(sid, 'start_timeout', false) end,
  controller = function(sid) drain(sid, 'controller_timeout') end,
  room_empty = function(sid) drain(sid, 'room_empty') end,
  session = function(sid) drain(sid, 'session_timeout') end,
  draining = function(sid) note(sid, 'draining', 'ended', finish(sid, nil, nil, true)) end,
}

local budget_left = tonumber(budget)
local due_now = redis.call('ZRANGEBYSCORE', key('dl'), '-inf', rt, 'LIMIT', 0, budget_left + 1)
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
return {#due_now > budget_left and 'more' or 'done', returned, ended}
