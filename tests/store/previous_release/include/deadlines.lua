-- One field t_<kind> per running deadline (registry time, ms); dl holds their minimum.
local DEADLINES = {'queued', 'assigned', 'joining', 'controller', 'room_empty', 'starting', 'session',
  'draining'}

local function read_deadlines(sid)
  local fields = {}
  for i, kind in ipairs(DEADLINES) do fields[i] = 't_' .. kind end
  local values, at = redis.call('HMGET', key('s', sid), unpack(fields)), {}
  for i, kind in ipairs(DEADLINES) do at[kind] = tonumber(values[i] or nil) end
  return at
end

-- Set (a time) or clear (false) deadlines by kind; the others stay as they are.
local function set_deadlines(sid, changes)
  local record, at = key('s', sid), read_deadlines(sid)
  for kind, value in pairs(changes) do
    if value then
      at[kind] = value
      redis.call('HSET', record, 't_' .. kind, value)
    elseif at[kind] then
      at[kind] = nil
      redis.call('HDEL', record, 't_' .. kind)
    end
  end
  local first
  for _, value in pairs(at) do
    if not first or value < first then first = value end
  end
  if first then redis.call('ZADD', key('dl'), first, sid) else redis.call('ZREM', key('dl'), sid) end
end

-- A limit of 0 is switched off.
local function due(limit_ms)
  local limit = number(limit_ms)
  return limit > 0 and rt + limit
end
