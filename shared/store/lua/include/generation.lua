-- Which run of the server is this (R6)? One with another run id was restarted or took over, and may have
-- lost its last writes. For one node lease, the grace, nothing expires then. And dispatch is held until
-- every node of the restored registry has beaten, so that what is given away isn't still held somewhere.
local HOLD_SHARE = 0.4            -- of a lease: two beats and a bit

local function note_generation()
  local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
  local seen = redis.call('HMGET', CTR, 'run', 'gen', 'ttl')
  if seen[1] == run then return end
  redis.call('HSET', CTR, 'run', run, 'gen', tonumber(seen[2] or 0) + 1)
  if not seen[1] then return end                -- an empty registry: there is nothing to wait for
  local lease = tonumber(seen[3] or 0)
  redis.call('HSET', CTR, 'grace', rt + lease, 'hold', rt + math.floor(lease * HOLD_SHARE))
  redis.call('DEL', key('free'))                -- a node comes back into it with its next beat
end

-- Every script that writes calls this first, once it is sure that it will write.
local function keep_registry_time()
  redis.call('HSET', CTR, 'rt', rt, 'rt_wall', now)
  note_generation()
end

local function in_grace()
  return rt < tonumber(redis.call('HGET', CTR, 'grace') or 0)
end

-- Whether the node has beaten, or begun a life, in this generation.
local function is_of_this_generation(nid)
  local gen = redis.call('HGET', key('n', nid), 'gen')
  return not gen or gen == redis.call('HGET', CTR, 'gen')
end

-- `hold`: when it may end at the earliest; gone once it is over.
local function is_held()
  local c = redis.call('HMGET', CTR, 'hold', 'grace')
  if not c[1] or rt >= tonumber(c[2]) then return false end
  if rt < tonumber(c[1]) then return true end
  for _, nid in ipairs(redis.call('ZRANGE', key('nodes'), 0, -1)) do
    if not is_of_this_generation(nid) then return true end
  end
  return false
end
