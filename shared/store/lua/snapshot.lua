#!lua flags=allow-oom,no-writes
-- One pool at one instant: all counts of an answer come from this one call.
-- KEYS: prefix
-- ARGV: now_ms, waiting_shown
-- Touches: q, s:<sid>, n:<nid>, ns:<nid>, nodes, ctr
-- Replies: ok
-- Fields: nodes {nid, state, judged, draining, inc, capacity, used, quarantined, media_ok, beat age ms, profile, start_ms, admin, progress}, states {word, count, ...}, waiting sids, queue length, oldest wait ms, totals {name, value, ...}
-- Publishes: nothing
-- Include: core, generation, recent, deadlines, slots
local nodes, states = {}, {}

-- How many slots of a node are taken by members, and how many of those are quarantined.
local function count_members(nid)
  local members, quarantined = redis.call('ZRANGE', key('ns', nid), 0, -1), 0
  for _, sid in ipairs(members) do
    if string.sub(sid, 1, 1) == '!' then
      quarantined = quarantined + 1
    else
      local state = redis.call('HGET', key('s', sid), 'state')
      if state then states[state] = (states[state] or 0) + 1 end
    end
  end
  return #members, quarantined
end

for _, nid in ipairs(redis.call('ZRANGE', key('nodes'), 0, -1)) do
  local n = redis.call('HMGET', key('n', nid), 'state', 'judged', 'draining', 'inc', 'capacity',
    'media_ok', 'beat', 'profile', 'start_ms', 'admin', 'strangers', 'progress',
    'admin_capacity')
  local taken, quarantined = count_members(nid)
  nodes[#nodes + 1] = {nid, text(n[1]), text(n[2]), text(n[3]), text(n[4]),
    text(allowed_capacity(n[5], n[13])), text(taken + number(n[11])), text(quarantined), text(n[6]),
    text(rt - number(n[7])), text(n[8]), text(n[9]), text(n[10]), text(n[12])}
end

local queued = redis.call('ZCARD', key('q'))
if queued > 0 then states.queued = queued end
local head = redis.call('ZRANGE', key('q'), 0, 0, 'WITHSCORES')
local by_state, totals = {}, {}
for state, count in pairs(states) do
  by_state[#by_state + 1] = state
  by_state[#by_state + 1] = text(count)
end
local ctr = redis.call('HGETALL', CTR)
for i = 1, #ctr, 2 do
  if string.sub(ctr[i], 1, 2) == 'n_' then
    totals[#totals + 1] = string.sub(ctr[i], 3)
    totals[#totals + 1] = ctr[i + 1]
  end
end
return {'ok', nodes, by_state, redis.call('ZRANGE', key('q'), 0, tonumber(waiting_shown) - 1),
  text(queued), text(head[2] and math.max(now - tonumber(head[2]), 0) or 0), totals}
