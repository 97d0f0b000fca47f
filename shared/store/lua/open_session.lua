#!lua
-- Put a new session in line and serve the line from its head; there is no side door past it.
-- Guarantee: one session per id and per idempotency key; a repeat is a sign of life of one that waits.
-- KEYS: prefix
-- ARGV: now_ms, session_id, idempotency_hash, fingerprint, queue_size, identity_hash, most_waiting, most_active, identity, request, d_queued, d_assigned, d_joining, d_controller, d_room_empty, d_starting, d_session, d_draining
-- Touches: q, s:<sid>, sd:<sid>, sp:<sid>, a:<sid>, idem:<hash>, id:<hash>, n:<nid>, ns:<nid>, nodes, free, dl, ctr, ev
-- Replies: created, exists, conflict, limited, full
-- Fields: the session (include/record.lua); none for conflict, limited and full
-- Publishes: w:<nid> assign; r:<replica>
-- Include: core, generation, recent, deadlines, slots, gaps, durations, choice, dispatch, record, identity
local DISPATCH_BUDGET = 8

-- The image that came ahead of a session which won't be: nobody else would ever claim it.
local function drop_unclaimed_image()
  if redis.call('EXISTS', key('s', session_id)) == 0 then redis.call('DEL', key('a', session_id)) end
end

-- Whoever asks for its session again is there: one that waits isn't given up meanwhile.
local function exists(known, fields)
  local s = redis.call('HMGET', key('s', known), 'state', 'd_queued')
  if s[1] == 'queued' and due(s[2]) then
    keep_registry_time()
    set_deadlines(known, {queued = due(s[2])})
  end
  return {'exists', fields}
end

local sid = session_id
local idem = idempotency_hash ~= '' and key('idem', idempotency_hash)
if idem then
  local known = redis.call('GET', idem)
  if known then
    local other, print = string.match(known, '^(%S+) (%S*)$')
    local fields = session_fields(other)
    if print ~= fingerprint or fields then drop_unclaimed_image() end
    if print ~= fingerprint then return {'conflict'} end
    if fields then return exists(other, fields) end
  end
end
local existing = session_fields(sid)
if existing then return exists(sid, existing) end

-- Served at once, or one more waiter: returned sessions don't count, their tickets are lower.
if is_after_restart() then keep_registry_time() end    -- then nobody is served at once, whatever `free` says
local servable = redis.call('ZCARD', key('q')) == 0 and not is_held() and pick_node({nodes = {}})
if is_over_limit(identity_hash, servable, most_waiting, most_active) then
  drop_unclaimed_image()
  return {'limited'}
end
if not servable then
  local top = number(redis.call('HGET', CTR, 'top'))
  if redis.call('ZCOUNT', key('q'), '(' .. text(top), '+inf') >= tonumber(queue_size) then
    drop_unclaimed_image()
    return {'full'}
  end
end

keep_registry_time()
note_schema()
local ticket = next_number('ticket')
redis.call('HSET', key('s', sid), 'state', 'queued', 'ticket', ticket, 'epoch', 0, 'attempt', 1,
  'created', now, 'queued_rt', rt, 'node', '', 'd_queued', d_queued, 'd_assigned', d_assigned,
  'd_joining', d_joining, 'd_controller', d_controller, 'd_room_empty', d_room_empty,
  'd_starting', d_starting, 'd_session', d_session, 'd_draining', d_draining)
redis.call('HSET', key('sd', sid), 'identity', identity)
redis.call('SET', key('sp', sid), request)
if idem then
  redis.call('SET', idem, sid .. ' ' .. fingerprint)
  redis.call('HSET', key('s', sid), 'idem', idempotency_hash)
end
if identity_hash ~= '' then
  redis.call('ZADD', key('id', identity_hash), ticket, sid)
  redis.call('HSET', key('s', sid), 'idh', identity_hash)
end
if redis.call('PERSIST', key('a', sid)) == 1 then
  redis.call('HINCRBY', CTR, 'image_bytes', redis.call('STRLEN', key('a', sid)))
end
redis.call('ZADD', key('q'), ticket, sid)
set_deadlines(sid, {queued = due(d_queued)})
changed(sid, 'queued', '', 0, '')
total('opened')
dispatch(DISPATCH_BUDGET)
return {'created', session_fields(sid)}
