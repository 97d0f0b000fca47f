#!lua flags=allow-oom
-- Declare silent nodes dead and return their sessions to the line, first come first served again.
-- Guarantee: at most max(2, 10 % of the live nodes) deaths per second (R13), a budget of sessions per call.
-- KEYS: prefix
-- ARGV: now_ms, budget
-- Touches: q, s:<sid>, sd:<sid>, sp:<sid>, a:<sid>, idem:<hash>, n:<nid>, ns:<nid>, nodes, free, dl, ctr, ev, holds, ended, id:<hash>
-- Replies: done, more
-- Fields: dead node ids, returned {sid, epoch, why}, ended {sid, reason, why}
-- Publishes: w:<nid> assign; r:<replica>
-- Include: core, generation, recent, deadlines, slots, gaps, holds, blame, ending, durations, choice, dispatch, members
local DISPATCH_BUDGET, RECORD_KEPT_MS, DEATH_WINDOW_MS = 64, 86400000, 1000

keep_registry_time()
local dead, returned, ended = {}, {}, {}
local allowed = math.max(2, math.floor(redis.call('ZCARD', key('nodes')) / 10))
local window = redis.call('HMGET', CTR, 'deaths_from', 'deaths')
local from, deaths = number(window[1]), number(window[2])
if rt - from >= DEATH_WINDOW_MS then from, deaths = rt, 0 end

local more = false
local silent = in_grace() and {}
  or redis.call('ZRANGEBYSCORE', key('nodes'), '-inf', rt, 'LIMIT', 0, allowed)
for _, nid in ipairs(silent) do
  local left = tonumber(budget) - #returned - #ended
  if deaths >= allowed or left <= 0 then
    more = left <= 0
    break
  end
  redis.call('HSET', key('n', nid), 'state', 'dead')   -- from here on there is no way back
  refresh_free(nid)
  local lost_at = number(redis.call('HGET', key('n', nid), 'beat'))
  if evacuate(nid, 'node_died', true, lost_at, left, returned, ended) then
    redis.call('ZREM', key('nodes'), nid)
    redis.call('PEXPIRE', key('n', nid), RECORD_KEPT_MS)
    node_changed(nid, 'node_died')
    strike(nid)
    total('nodes_died')
    deaths = deaths + 1
    dead[#dead + 1] = nid
  else
    more = true
  end
end
redis.call('HSET', CTR, 'deaths_from', from, 'deaths', deaths)

-- Not between two parts: the sessions still to come may hold lower tickets.
if not more then dispatch(DISPATCH_BUDGET) end
return {more and 'more' or 'done', dead, returned, ended}
