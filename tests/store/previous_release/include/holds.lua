-- How long slots are held: what estimates are learned from.
local HOLDS_KEPT = 64

-- Only from sessions that ran, on one node from first to last, and ended by themselves or by a limit:
-- a fault, a shutdown or an operator says nothing about how long people stay.
local UNTYPICAL = {admin = true, node_shutdown = true}

local function learn_hold(sid, reason)
  local s = redis.call('HMGET', key('s', sid), 'started', 'attempt', 'node', 'assigned_rt')
  if not s[1] or s[2] ~= '1' or s[3] == '' or UNTYPICAL[reason] or ENDED_AS[reason] == 'failed' then
    return
  end
  redis.call('RPUSH', key('holds'), math.max(rt - number(s[4]), 0))
  redis.call('LTRIM', key('holds'), -HOLDS_KEPT, -1)
end
