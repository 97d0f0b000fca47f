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

-- Set (a time) or clear (false) deadlines by kind; the others stay as they are. at: as they are, where the
-- caller has just read them.
local function set_deadlines(sid, changes, at)
  local record, set, cleared = key('s', sid), {}, {}
  at = at or read_deadlines(sid)
  for kind, value in pairs(changes) do
    if value then
      at[kind] = value
      set[#set + 1] = 't_' .. kind
      set[#set + 1] = value
    elseif at[kind] then
      at[kind] = nil
      cleared[#cleared + 1] = 't_' .. kind
    end
  end
  if #set > 0 then redis.call('HSET', record, unpack(set)) end
  if #cleared > 0 then redis.call('HDEL', record, unpack(cleared)) end
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
