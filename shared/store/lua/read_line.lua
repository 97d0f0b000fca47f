#!lua flags=allow-oom,no-writes
-- Show the line, and how long slots are held: what places and estimates are made of.
-- Guarantee: one instant; changes nothing; looks at the given number of waiting and of resident sessions.
-- KEYS: prefix
-- ARGV: now_ms, most_waiting, most_tickets, most_residents
-- Touches: q, s:<sid>, n:<nid>, ns:<nid>, nodes, ctr, holds
-- Replies: ok
-- Fields: now ms, waiting {sid, ...}, the first ones' tickets, queue length, slots that serve the line, how many of them are taken, ms for which some of those are held, ms for which past sessions held theirs
-- Publishes: nothing
-- Include: core, generation, recent, slots
local slots, taken, held, tickets = 0, 0, {}, {}

local function look_at(nid)
  local most = tonumber(most_residents) - #held
  for _, sid in ipairs(most > 0 and redis.call('ZRANGE', key('ns', nid), 0, most - 1) or {}) do
    local since = redis.call('HGET', key('s', sid), 'assigned_rt')
    if since then held[#held + 1] = text(math.max(rt - tonumber(since), 0)) end
  end
end

for _, nid in ipairs(redis.call('ZRANGE', key('nodes'), 0, -1)) do
  local capacity, _, strangers = serving_capacity(nid)
  if capacity > 0 then
    slots = slots + capacity
    taken = taken + math.min(used_slots(nid, strangers), capacity)
    look_at(nid)
  end
end

local first = redis.call('ZRANGE', key('q'), 0, tonumber(most_tickets) - 1, 'WITHSCORES')
for i = 2, #first, 2 do tickets[#tickets + 1] = first[i] end

return {'ok', text(now), redis.call('ZRANGE', key('q'), 0, tonumber(most_waiting) - 1), tickets,
  text(redis.call('ZCARD', key('q'))), text(slots), text(taken), held,
  redis.call('LRANGE', key('holds'), 0, -1)}
