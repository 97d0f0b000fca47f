-- What a failure or a death costs the session (R4). Needs: recent, slots.
local NODES_ASKED = 16

-- An accept, join or start failure counts 2, once per node: one bad node ends no session. If every node
-- that serves the line has failed it by now, each failure counts, so that no session goes round for ever.
local function failure_weight(sid, nid)
  local texts, tried, again = key('sd', sid), {}, false
  local failed = recent(redis.call('HGET', texts, 'failed_on'))
  for _, entry in ipairs(failed) do tried[entry[2]] = true end
  if not tried[nid] then
    redis.call('HSET', texts, 'failed_on', with_one_more(failed, nid))
    return 2
  end
  for _, other in ipairs(redis.call('ZRANGE', key('nodes'), 0, NODES_ASKED - 1)) do
    if not tried[other] and serving_capacity(other) > 0 then again = true end
  end
  return again and 0 or 2
end

-- Those that died together, as a word: dispatch keeps them apart.
local function note_death(sid, nid)
  redis.call('HSET', key('s', sid), 'mates', nid .. '@' .. text(redis.call('HGET', key('n', nid), 'inc')))
end

-- A death counts two if the session was alone in what died, or the only one starting.
local function death_weight(sid, mates)
  local s = redis.call('HMGET', key('s', sid), 'state', 'acked')
  if s[1] == 'assigned' or not s[2] then return 0 end
  if mates.all == 1 or (s[1] == 'starting_pipeline' and mates.starting == 1) then return 2 end
  return 1
end
