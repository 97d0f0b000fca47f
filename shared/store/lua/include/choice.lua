-- Which node is a session to step onto? The least used one, and rather not some. Needs: recent, slots.
local NODES_LOOKED_AT = 16

-- Where a session should rather not go (R4): to the node that just lost it, to those that failed it lately,
-- and beside those with which it died last.
local function dislikes_of(sid, avoid, mates, counts)
  local nodes = {[avoid or ''] = true}
  local failed = counts and redis.call('HGET', key('sd', sid), 'failed_on')
  for _, entry in ipairs(recent(failed)) do nodes[entry[2]] = true end
  return {nodes = nodes, mates = mates}
end

-- What this call has found out about nodes: many sessions may choose among the same few.
local lives, deaths_met = {}, {}

local function is_alive(nid)
  if lives[nid] == nil then lives[nid] = number(redis.call('ZSCORE', key('nodes'), nid)) > rt end
  return lives[nid]
end

-- The deaths that a node's sessions have been through.
local function read_deaths_met(nid)
  if not deaths_met[nid] then
    deaths_met[nid] = {}
    for _, sid in ipairs(redis.call('ZRANGE', key('ns', nid), 0, -1)) do
      deaths_met[nid][redis.call('HGET', key('s', sid), 'mates') or ''] = true
    end
  end
  return deaths_met[nid]
end

-- 0: nothing is against it, 2: only if there is no other.
local function dislike(nid, disliked)
  if disliked.nodes[nid] then return 2 end
  return disliked.mates and read_deaths_met(nid)[disliked.mates] and 1 or 0
end

-- The first free node that is alive, and of those the least disliked one.
local function pick_node(disliked)
  local best, least, silent
  repeat
    best, least, silent = nil, 3, false
    for _, nid in ipairs(redis.call('ZRANGE', key('free'), 0, NODES_LOOKED_AT - 1)) do
      if not is_alive(nid) then
        redis.call('ZREM', key('free'), nid)    -- the sweep will declare it dead
        silent = true
      else
        local how_much = dislike(nid, disliked)
        if how_much == 0 then return nid end
        if how_much < least then best, least = nid, how_much end
      end
    end
  until not silent                              -- they may have hidden one that is alive
  return best
end

-- It was chosen: the next one of the same death finds its mate there.
local function note_choice(nid, disliked)
  if disliked.mates and deaths_met[nid] then deaths_met[nid][disliked.mates] = true end
end
