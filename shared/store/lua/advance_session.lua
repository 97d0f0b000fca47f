#!lua flags=allow-oom
-- Move a session one step along, in the name of the node that holds it.
-- Guarantee: only the exact owner moves it; draining never goes back (R8); a repeat changes nothing.
-- KEYS: prefix
-- ARGV: now_ms, node_id, incarnation, session_id, epoch, stamp, target, reason, pipeline_session_id
-- Touches: q, s:<sid>, sd:<sid>, n:<nid>, ns:<nid>, nodes, free, dl, ctr, ev
-- Replies: moved, stop, illegal, fenced
-- Fields: moved, illegal: the state now; stop: the reason
-- Publishes: w:<nid> stop (for draining), assign (a cleared node may serve the line); r:<replica>
-- Include: core, generation, recent, deadlines, slots, gaps, holds, ending, durations, choice, dispatch, owner
local DISPATCH_BUDGET = 8
local STEPS = {joining_room = true, starting_pipeline = true, running = true, draining = true}

local sid, record = session_id, key('s', session_id)
if not owns(node_id, incarnation, sid, epoch) then return {'fenced'} end
local s = redis.call('HMGET', record, 'state', 'reason', 'd_joining', 'd_starting', 'left')
local state = s[1]
if state == 'draining' then return {'stop', s[2]} end
if state == target then return {'moved', state} end
if MAY_BECOME.draining[state] == nil then return {'fenced'} end
if not STEPS[target] or not MAY_BECOME[target][state]
  or (target == 'draining' and not ENDED_AS[reason]) then return {'illegal', state} end

keep_registry_time()
if target == 'draining' then
  drain(sid, reason)
  return {'moved', target}
end
redis.call('HSET', record, 'state', target)
if target == 'joining_room' then
  redis.call('HSET', record, 'acked', stamp)
  set_deadlines(sid, {assigned = false, joining = due(s[3])})
elseif target == 'starting_pipeline' then
  local declared = number(redis.call('HGET', key('n', node_id), 'start_ms'))
  set_deadlines(sid, {joining = false, starting = due(declared > 0 and declared or s[4])})
elseif target == 'running' then
  redis.call('HSET', record, 'started', now)
  redis.call('HSET', key('sd', sid), 'pipeline_session_id', pipeline_session_id)
  local deadlines = {starting = false}
  if s[5] then                                  -- the paused session limit runs on
    deadlines.session = rt + tonumber(s[5])
    redis.call('HDEL', record, 'left')
  end
  set_deadlines(sid, deadlines)
  clear_strikes(node_id)
end
changed(sid, target, node_id, epoch, '')
if target == 'running' then dispatch(DISPATCH_BUDGET) end
return {'moved', target}
