#!lua flags=allow-oom
-- A node confirms that nothing is left of a session: it becomes terminal and its slot goes on.
-- Guarantee: the slot is freed once, by the exact owner; a reason stored earlier stays.
-- KEYS: prefix
-- ARGV: now_ms, node_id, incarnation, session_id, epoch, reason, error
-- Touches: q, s:<sid>, sd:<sid>, sp:<sid>, a:<sid>, idem:<hash>, n:<nid>, ns:<nid>, nodes, free, dl, ctr, ev, holds, ended, id:<hash>
-- Replies: ended, already, fenced
-- Fields: ended: the reason that was stored
-- Publishes: w:<nid> assign; r:<replica>
-- Include: core, generation, recent, deadlines, slots, gaps, holds, ending, durations, choice, dispatch, owner
local DISPATCH_BUDGET = 8

local sid = session_id
if quarantined(node_id, sid, epoch) then
  keep_registry_time()
  release_quarantine(node_id, sid)
  dispatch(DISPATCH_BUDGET)
  return {'already'}
end
if not owns(node_id, incarnation, sid, epoch) then return {'fenced'} end
local state = redis.call('HGET', key('s', sid), 'state')
if state ~= 'draining' and not MAY_BECOME.draining[state] then return {'already'} end

keep_registry_time()
local stored = finish(sid, reason, error, false)
dispatch(DISPATCH_BUDGET)
return {'ended', stored}
