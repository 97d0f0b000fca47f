#!lua flags=allow-oom
-- Return a session to the line in the name of its node, which is silent and out of the room by now.
-- Guarantee: old ticket, new epoch, slot freed once; what the node can do now is known before dispatch.
-- Unplayed are the ms since the last frame. Which of them were credited already is known here alone:
-- all credit beyond earlier_ms, which stood for the losses before this one.
-- KEYS: prefix
-- ARGV: now_ms, node_id, incarnation, session_id, epoch, why, capacity, media_ok, unplayed_ms, earlier_ms
-- Touches: q, s:<sid>, sd:<sid>, sp:<sid>, a:<sid>, idem:<hash>, n:<nid>, ns:<nid>, nodes, free, dl, ctr, ev, holds, ended, id:<hash>
-- Replies: returned, ended, fenced
-- Fields: none
-- Publishes: w:<nid> assign; r:<replica>
-- Include: core, generation, recent, deadlines, slots, gaps, holds, blame, ending, durations, choice, dispatch, members, owner
local UNCOUNTED = {node_shutdown = true, node_drained = true, media_lost = true}
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
local weight
if UNCOUNTED[why] then
  weight = 0
elseif why == 'service_lost' or why == 'gpu_lost' then
  local is_down = number(capacity) == 0         -- its process died, with all that it held
  if is_down and redis.call('HEXISTS', key('n', node_id), 'mates') == 0 then strike(node_id) end
  weight = death_weight(sid, is_down and mates_at_death(node_id) or count_mates(node_id))
  if is_down and weight > 0 then note_death(sid, node_id) end
else
  strike(node_id)
  weight = failure_weight(sid, node_id)
end
local ahead = math.max(0, number(redis.call('HGET', key('s', sid), 'credited')) - tonumber(earlier_ms))
local uncredited = math.max(0, tonumber(unplayed_ms) - ahead)
local outcome = return_to_line(sid, why, weight, rt - uncredited, false, tonumber(unplayed_ms) - uncredited)
-- It goes on before its node has cleaned up, and is listed there until then: no slot is free yet.
if why == 'node_drained' then
  redis.call('HINCRBY', key('n', node_id), 'strangers', 1)
  refresh_free(node_id)
end
dispatch(DISPATCH_BUDGET)
return {outcome}
