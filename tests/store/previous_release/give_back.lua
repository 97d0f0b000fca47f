#!lua flags=allow-oom
-- Return a session to the line in the name of its node, which is silent and out of the room by now.
-- Guarantee: old ticket, new epoch, slot freed once; what the node can do now is known before dispatch.
-- KEYS: prefix
-- ARGV: now_ms, node_id, incarnation, session_id, epoch, why, capacity, media_ok
-- Touches: q, s:<sid>, sd:<sid>, sp:<sid>, a:<sid>, idem:<hash>, n:<nid>, ns:<nid>, nodes, free, dl, ctr, ev, holds, ended
-- Replies: returned, ended, fenced
-- Fields: none
-- Publishes: w:<nid> assign; r:<replica>
-- Include: core, deadlines, slots, holds, ending, dispatch, members, owner
local UNCOUNTED = {node_shutdown = true, media_lost = true}
local DISPATCH_BUDGET = 8

local sid = session_id
if quarantined(node_id, sid, epoch) then
  keep_registry_time()
  release_quarantine(node_id, sid)
  dispatch(DISPATCH_BUDGET)
  return {'fenced'}
end
if not owns(node_id, incarnation, sid, epoch) then return {'fenced'} end
if MAY_BECOME.draining[redis.call('HGET', key('s', sid), 'state')] == nil
  and not redis.call('ZSCORE', key('ns', node_id), sid) then return {'fenced'} end

keep_registry_time()
redis.call('HSET', key('n', node_id), 'capacity', capacity, 'media_ok', media_ok)
local weight = 2
if UNCOUNTED[why] then
  weight = 0
elseif why == 'service_lost' then
  local is_down = number(capacity) == 0
  weight = death_weight(sid, is_down and mates_at_death(node_id) or count_mates(node_id))
else
  strike(node_id)
end
local outcome = return_to_line(sid, why, weight, rt, false)
dispatch(DISPATCH_BUDGET)
return {outcome}
