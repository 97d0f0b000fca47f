-- What a node keeps of a session to bring it back (R14): what was asked and granted, and since when its user
-- sees something, never what is being done.
local KEPT = {'ticket', 'created', 'attempt', 'counts', 'mates', 'admitted', 'idem', 'idh', 'started',
  'left', 'credited', 'first_frame', 'first_frame_epoch', 'd_queued', 'd_assigned', 'd_joining', 'd_controller',
  'd_room_empty', 'd_starting', 'd_session', 'd_draining'}

local function pack(sid)
  local record = redis.call('HMGET', key('s', sid), unpack(KEPT))
  local bundle = {record = {}, texts = redis.call('HGETALL', key('sd', sid)),
    request = redis.call('GET', key('sp', sid)) or ''}
  for i, field in ipairs(KEPT) do
    if record[i] then bundle.record[field] = record[i] end
  end
  if bundle.record.idem then bundle.print = redis.call('GET', key('idem', bundle.record.idem)) or nil end
  local ends = tonumber(redis.call('HGET', key('s', sid), 't_session') or nil)
  if ends then bundle.left = text(math.max(ends - rt, 0)) end
  return bundle
end

local function restore(sid, bundle)
  local record, idem = key('s', sid), bundle.record.idem
  for _, field in ipairs(KEPT) do
    if bundle.record[field] then redis.call('HSET', record, field, bundle.record[field]) end
  end
  if #bundle.texts > 0 then redis.call('HSET', key('sd', sid), unpack(bundle.texts)) end
  redis.call('SET', key('sp', sid), bundle.request)
  if idem and bundle.print then
    redis.call('SETNX', key('idem', idem), bundle.print)
    -- The client may have asked again meanwhile: then the key stands for its new session.
    if redis.call('GET', key('idem', idem)) ~= bundle.print then redis.call('HDEL', record, 'idem') end
  end
  local hash = bundle.record.idh
  if hash then redis.call('ZADD', key('id', hash), bundle.record.ticket, sid) end
  if redis.call('PERSIST', key('a', sid)) == 1 then   -- its image came ahead of it
    redis.call('HINCRBY', CTR, 'image_bytes', redis.call('STRLEN', key('a', sid)))
  end
end
