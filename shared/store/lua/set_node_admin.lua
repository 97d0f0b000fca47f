#!lua flags=allow-oom
-- Close a node to new sessions, or open it again, on behalf of an operator.
-- And have those that it holds move on after a while, or not.
-- Guarantee: no session is assigned to a draining node after this call, in whatever life it is. An order
-- that was given on an older sight of the node changes nothing; repeated late it is not given again.
-- Kept apart from what the node reports and from what is judged.
-- KEYS: prefix
-- ARGV: now_ms, node_id, admin, move_in_ms, order, replaces
-- Touches: q, s:<sid>, n:<nid>, ns:<nid>, nodes, free, dl, ctr, ev
-- Replies: set, changed, gone
-- Fields: set: how many sessions it holds, quarantined ones included
-- Publishes: w:<nid> drain, assign; r:<replica>
-- Include: core, generation, recent, deadlines, slots, gaps, durations, choice, dispatch
local DISPATCH_BUDGET = 64

local record = key('n', node_id)
if redis.call('EXISTS', record) == 0 then return {'gone'} end
local n = redis.call('HMGET', record, 'admin', 'order', 'drain_at')
local is_repeat = n[2] == order
if not is_repeat and replaces ~= text(n[2]) then return {'changed'} end

local function note(what, why)
  redis.call('XADD', key('ev'), 'MAXLEN', '~', EVENTS_KEPT, '*', 'what', what, 'node', node_id, 'at', now,
    'why', why)
end

keep_registry_time()
if not is_repeat then
  redis.call('HSET', record, 'admin', admin, 'order', order)
  if admin == 'draining' then redis.call('HDEL', record, 'vacant') end
  if move_in_ms ~= '' then
    redis.call('HSET', record, 'drain_at', rt + tonumber(move_in_ms))
    note('node_drain', text(math.floor(tonumber(move_in_ms) / 1000)))
  else
    redis.call('HDEL', record, 'drain_at')
    if n[3] or (n[1] or 'open') ~= admin then note('node_admin', admin) end
  end
  refresh_free(node_id)
  hint(node_id, 'drain', '')                    -- its pages shall know now, not after its next beat
end
local _, _, strangers = serving_capacity(node_id)
local held = used_slots(node_id, strangers)
dispatch(DISPATCH_BUDGET)
return {'set', text(held)}
