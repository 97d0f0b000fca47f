#!lua flags=allow-oom
-- Have a node hold no more than so many sessions, or as many as it says itself, on behalf of an operator.
-- Guarantee: the line never uses more slots of it than this, in whatever life it is; nobody is taken off,
-- those above the limit play on until they end. An order that was given on an older sight of the node
-- changes nothing; repeated late it is not given again. Kept apart from what the node reports.
-- KEYS: prefix
-- ARGV: now_ms, node_id, capacity, order, replaces
-- Touches: q, s:<sid>, n:<nid>, ns:<nid>, nodes, free, dl, ctr, ev
-- Replies: set, changed, gone
-- Fields: set: how many sessions it holds, quarantined ones included
-- Publishes: w:<nid> assign; r:<replica>
-- Include: core, generation, recent, deadlines, slots, gaps, durations, choice, dispatch
local DISPATCH_BUDGET = 64

local record = key('n', node_id)
if redis.call('EXISTS', record) == 0 then return {'gone'} end
local n = redis.call('HMGET', record, 'order', 'admin_capacity')
local is_repeat = n[1] == order
if not is_repeat and replaces ~= text(n[1]) then return {'changed'} end

keep_registry_time()
if not is_repeat then
  redis.call('HSET', record, 'order', order)
  if capacity == '' then
    redis.call('HDEL', record, 'admin_capacity')
  else
    redis.call('HSET', record, 'admin_capacity', capacity)
    redis.call('HDEL', record, 'vacant')          -- what was empty by then may stay so
  end
  if text(n[2]) ~= capacity then
    redis.call('XADD', key('ev'), 'MAXLEN', '~', EVENTS_KEPT, '*', 'what', 'node_capacity', 'node', node_id,
      'at', now, 'why', capacity == '' and 'reported' or capacity)
  end
  refresh_free(node_id)
end
local _, _, strangers = serving_capacity(node_id)
local held = used_slots(node_id, strangers)
dispatch(DISPATCH_BUDGET)
return {'set', text(held)}
