-- Which run of the server is this (R6)? One with another run id was restarted or took over, and may have
-- lost its last writes. For one node lease, the grace, nothing expires then. And dispatch is held until
-- every node of the restored registry has beaten, so that what is given away isn't still held somewhere.
local HOLD_SHARE = 0.4            -- of a lease: two beats and a bit

local run_now

local function present_run()
  if not run_now then
    local told = redis.call('INFO', 'server')
    local _, before = string.find(told, 'run_id:', 1, true)     -- found twice as fast as by a pattern
    run_now = string.match(told, '^%x+', before + 1)
  end
  return run_now
end

local function note_generation()
  local run = present_run()
  if pool.run == run then return end
  local is_new = not pool.run                   -- an empty registry: there is nothing to wait for
  pool.run, pool.gen = run, tostring(tonumber(pool.gen or 0) + 1)
  redis.call('HSET', CTR, 'run', run, 'gen', pool.gen)
  if is_new then return end
  local lease = tonumber(pool.ttl or 0)
  pool.grace, pool.hold = rt + lease, rt + math.floor(lease * HOLD_SHARE)
  redis.call('HSET', CTR, 'grace', pool.grace, 'hold', pool.hold)
  redis.call('DEL', key('free'))                -- a node comes back into it with its next beat
end

-- Every script that writes calls this first, once it is sure that it will write; again is harmless.
local function keep_registry_time()
  if pool.is_kept then return end
  pool.is_kept = true
  redis.call('HSET', CTR, 'rt', rt, 'rt_wall', now)
  note_generation()
end

-- Whether this is the first call since the server became another run: what stands in `free` is older.
local function is_after_restart()
  return pool.run and pool.run ~= present_run()
end

-- R15: the highest schema that was ever written here; whoever starts compares it with its own.
local function note_schema()
  if tonumber(pool.schema or 0) < SCHEMA then redis.call('HSET', CTR, 'schema', SCHEMA) end
end

local function in_grace()
  return rt < tonumber(pool.grace or 0)
end

-- Whether a node with this `gen` has beaten, or begun a life, in this generation. A node of the release
-- before has none.
local function is_of_this_generation(gen)
  return not gen or gen == pool.gen
end

-- `hold`: when it may end at the earliest; gone once it is over.
local function is_held()
  if not pool.hold or not in_grace() then return false end
  if rt < tonumber(pool.hold) then return true end
  for _, nid in ipairs(redis.call('ZRANGE', key('nodes'), 0, -1)) do
    if not is_of_this_generation(redis.call('HGET', key('n', nid), 'gen')) then return true end
  end
  return false
end
