#!lua flags=allow-oom
-- Close a node to new sessions, or open it again, on behalf of an operator.
-- Guarantee: no session is assigned to a draining node after this call, in whatever life it is; what it
-- holds stays. Kept apart from what the node reports and from what is judged.
-- KEYS: prefix
-- ARGV: now_ms, node_id, admin
-- Touches: q, s:<sid>, n:<nid>, ns:<nid>, nodes, free, dl, ctr, ev
-- Replies: set, gone
-- Fields: set: how many sessions it holds, quarantined ones included
-- Publishes: w:<nid> assign; r:<replica>
-- Include: core, generation, recent, deadlines, slots, choice, dispatch
local DISPATCH_BUDGET = 64

local record = key('n', node_id)
if redis.call('EXISTS', record) == 0 then return {'gone'} end
local before = redis.call('HGET', record, 'admin') or 'open'

keep_registry_time()
redis.call('HSET', record, 'admin', admin)
refresh_free(node_id)
if before ~= admin then
  redis.call('XADD', key('ev'), 'MAXLEN', '~', EVENTS_KEPT, '*', 'what', 'node_admin', 'node', node_id,
    'at', now, 'why', admin)
end
local _, _, strangers = serving_capacity(node_id)
local held = used_slots(node_id, strangers)
dispatch(DISPATCH_BUDGET)
return {'set', text(held)}
