-- Keys, the two clocks, numbers, events. Needs: now_ms among the arguments.
local prefix = KEYS[1]
local RETENTION_MS = 3600000      -- an ended session can be read for an hour
local EVENTS_KEPT = 10000

local function key(kind, id)
  if id then return prefix .. kind .. ':' .. id end
  return prefix .. kind
end

local CTR = key('ctr')

-- Wall clock of the server, ms. It may step; it only stamps and numbers.
local now = tonumber(now_ms)
if now == 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end

local function read_fields(hash, names)
  local values, found = redis.call('HMGET', hash, unpack(names)), {}
  for i, name in ipairs(names) do found[name] = values[i] or nil end
  return found
end

-- What is kept for the whole pool, read once. Whoever changes one of these keeps it here, too.
local pool = read_fields(CTR, {'rt', 'rt_wall', 'run', 'gen', 'ttl', 'grace', 'hold', 'schema'})

-- Registry time, ms: advances with the wall clock, per call at least 0 and at most 2 s. A step of
-- the clock, a pause of Redis or of every caller therefore stops all deadlines instead of firing them.
local rt = tonumber(pool.rt or now) + math.min(math.max(now - tonumber(pool.rt_wall or now), 0), 2000)

local issued = {}                 -- the last number of each name, once it is known

local function last_number(name)
  issued[name] = issued[name] or tonumber(redis.call('HGET', CTR, name) or 0)
  return issued[name]
end

local function note_number(name, number)
  redis.call('HSET', CTR, name, number)
  issued[name] = tonumber(number)
end

-- R5: a number seen elsewhere is never issued again, even if its issue was lost. All numbers follow the
-- clock, so an epoch that a registering node names also stands for the tickets before it.
local function fold_number(name, seen)
  if tonumber(seen) > last_number(name) then note_number(name, seen) end
end

-- Tickets, epochs, incarnations and versions: never twice, never back, whatever the clock does.
local function next_number(name, at_least)
  note_number(name, math.max(last_number(name) + 1, now, (at_least or 0) + 1))
  return issued[name]
end

local function text(value)
  if not value then return '' end
  if type(value) == 'number' then return string.format('%.0f', value) end
  return value
end

local function number(value)
  return tonumber(value or 0) or 0
end

-- Count a change of the record, write it to the audit trail, and hint at it to the replicas whose
-- clients follow the session. Each entry names the ticket, so that any stretch of the trail proves its
-- own order.
local function changed(sid, what, nid, epoch, why)
  local version = next_number('version')
  redis.call('HSET', key('s', sid), 'ver', version, 'updated', now)
  local s = redis.call('HMGET', key('s', sid), 'ticket', 'watch')
  redis.call('XADD', key('ev'), 'MAXLEN', '~', EVENTS_KEPT, '*', 'what', what, 'sid', sid,
    'ticket', text(s[1]), 'node', text(nid), 'epoch', text(epoch), 'ver', version, 'at', now,
    'why', text(why))
  if text(nid) ~= '' then redis.call('HDEL', key('n', nid), 'settled') end
  for replica in string.gmatch(text(s[2]), '%S+') do
    redis.call('PUBLISH', key('r', replica), sid)
  end
end

local function node_changed(nid, what)
  redis.call('XADD', key('ev'), 'MAXLEN', '~', EVENTS_KEPT, '*', 'what', what, 'node', nid, 'at', now)
end

local function total(name)
  redis.call('HINCRBY', CTR, 'n_' .. name, 1)
end

local function hint(nid, word, sid, epoch)
  redis.call('PUBLISH', key('w', nid), word .. ' ' .. sid .. ' ' .. text(epoch))
end
